"""Transcodes: how far each is, what it made, and a player where that lies here."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.dashboard.layout import JOBS, TRANSCODES, PageFrame, empty, grid, heading
from euterpe.dashboard.pages.jobs import LOOKED_AT
from euterpe.dashboard.pages.outputs import JOB_TYPE, LocalOutputs, facts_of, outputs_of, player, source_name
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import moment, state_mark
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.job import JobRow
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.ports import Store
from euterpe.server.http.asgi import Request

PAGE: Final = 25


class TranscodesQuery(msgspec.Struct, frozen=True):
    """`cursor` goes on from an earlier page."""

    cursor: str | None = None


class TranscodesPage:
    """Made of one search."""

    def __init__(self, store: Store, local: LocalOutputs) -> None:
        self._store = store
        self._local = local

    async def make(self, visitor: Visitor, said: TranscodesQuery, _: Request) -> PageFrame:
        now = await self._store.now_us()
        search = Search(type=JOB_TYPE, requester_id=visitor.sees, cursor=said.cursor, limit=PAGE, scan_limit=LOOKED_AT)
        found = await self._store.search(search)
        rows = [_row(job, now, here=self._local.is_here(job)) for job in found.jobs]
        columns: list[Child] = ["State", "Source", "Progress", "Outputs", "Listen", "Created"]
        body = joined(
            heading("Transcodes"),
            grid(columns, rows, "Transcodes, newest first") if rows else _nothing(found.cursor),
            h.nav(
                h.a("‹ Newest", href=TRANSCODES) if said.cursor else None,
                h.a("Older ›", href=f"{TRANSCODES}?cursor={found.cursor}", rel="next") if found.cursor else None,
                class_="pages",
                aria_label="Pages of the table",
            ),
        )
        return PageFrame("Transcodes", body, TRANSCODES)


def _nothing(cursor: str | None) -> Html:
    if cursor is not None:
        return empty("None among the newest jobs; older ones may be.")
    return empty(
        "There is no transcode yet. ",
        h.code("POST /transcode"),
        " makes one, and so does a folder of music: set ",
        h.code("PRODUCER_SCAN_DIR"),
        " and ",
        h.code("PRODUCER_PRESETS"),
        ".",
    )


def _row(job: JobRow, now: int, *, here: bool) -> Html:
    outputs = outputs_of(job)
    players = [player(job, place, output) for place, output in enumerate(outputs)] if here else []
    return h.tr(
        h.td(state_mark(job.state)),
        h.td(h.a(source_name(job), href=f"{JOBS}/{job.id}", class_="row-link"), class_="name"),
        h.td(_progress(job)),
        h.td([h.div(h.strong(output.id), " ", facts_of(output)) for output in outputs] or None),
        h.td(next((one for one in players if one is not None), None)),
        h.td(moment(job.created_at, now), class_="num"),
        id=f"t-{job.id}",
    )


def _progress(job: JobRow) -> Child:
    if job.state is not State.RUNNING:
        return None
    bar = h.progress(value=f"{job.progress or 0:.1f}", max=100, aria_label=f"Progress of {source_name(job)}")
    return h.div(bar, f" {job.progress or 0:.0f} % {job.current_stage}", class_="progress")
