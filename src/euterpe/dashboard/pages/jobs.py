"""The table of jobs: the query language in the search box, every filter in the address, pages by cursor."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec

from euterpe.dashboard.layout import JOBS, PageFrame, empty, grid, heading
from euterpe.dashboard.pages.bulk import bulk_links
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import GLYPHS, duration, moment, short_id, state_mark, state_words
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.errors import InvalidInput
from euterpe.model.job import JobRow
from euterpe.model.reading.job_query import joined as joined_search
from euterpe.model.reading.job_query import parse_query, words_of
from euterpe.model.reading.views import Search, SearchPage
from euterpe.model.state import TERMINAL, State
from euterpe.ports import Store
from euterpe.server.http.asgi import Request

PAGE: Final = 50
LOOKED_AT: Final = 5_000
"""Jobs of a state that one page looks at: fewer than the API, since somebody waits for it."""
COLUMNS: Final[list[Child]] = ["State", "Type", "Queue", "Job", "Attempts", "Created", "Waited", "Ran", "Last error"]


class JobsQuery(msgspec.Struct, frozen=True):
    """What the address of the table says."""

    q: str | None = None
    cursor: str | None = None


class JobsPage:
    """Made of one search."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make(self, visitor: Visitor, said: JobsQuery, _: Request) -> PageFrame:
        now = await self._store.now_us()
        text = (said.q or "").strip()
        head = joined(heading("Jobs"), state_links(text))
        try:
            wanted = Search(requester_id=visitor.sees, cursor=said.cursor, limit=PAGE)
            asked = joined_search(parse_query(text, now), wanted)
            found = await self._store.search(msgspec.structs.replace(asked, scan_limit=LOOKED_AT))
        except InvalidInput as wrong:
            body = joined(head, h.p(f"The search cannot be read: {wrong.reason}.", class_="wrong", role="alert"))
            return PageFrame("Jobs", body, JOBS, query=text)
        many = bulk_links(text) if visitor.is_admin and text and found.jobs else None
        return PageFrame("Jobs", joined(head, many, _found(found, text, said.cursor, now)), JOBS, query=text)


def address(text: str, cursor: str | None = None) -> str:
    said = {name: value for name, value in (("q", text), ("cursor", cursor)) if value}
    return f"{JOBS}?{urlencode(said)}" if said else JOBS


def with_state(text: str, state: State | None) -> str:
    """The same query for another state, word for word otherwise."""
    try:
        others = [word.raw for word in words_of(text) if word.key != "state"]
    except InvalidInput:
        others = []
    return " ".join([f"state:{state}", *others] if state else others)


def state_links(text: str) -> Html:
    try:
        chosen = next((word.value for word in words_of(text) if word.key == "state"), None)
    except InvalidInput:
        chosen = None
    links = [h.li(h.a("any state", href=address(with_state(text, None)), aria_current=_here(chosen is None)))]
    links += [
        h.li(
            h.a(
                h.span(GLYPHS[state], class_="sign", aria_hidden="true"),
                state_words(state),
                href=address(with_state(text, state)),
                aria_current=_here(chosen == state),
                class_=f"s-{state}",
            )
        )
        for state in State
    ]
    return h.nav(h.ul(links), class_="states", aria_label="By state")


def _here(yes: bool) -> str | None:
    return "true" if yes else None


def _found(found: SearchPage, text: str, cursor: str | None, now: int) -> Html:
    if not found.jobs and found.cursor is None:
        return _nothing(text, cursor)
    rows = [_row(job, now) for job in found.jobs]
    looked = None
    if not rows:
        looked = empty("Among the jobs that this page looked at none matches; older ones may.")
    return joined(
        looked,
        grid(COLUMNS, rows, "Jobs, newest first") if rows else None,
        h.nav(
            h.a("‹ Newest", href=address(text)) if cursor else None,
            h.a("Older ›", href=address(text, found.cursor), rel="next") if found.cursor else None,
            class_="pages",
            aria_label="Pages of the table",
        ),
    )


def _nothing(text: str, cursor: str | None) -> Html:
    if cursor:
        return empty("There are no older jobs. ", h.a("To the newest", href=address(text)))
    if text:
        return empty(
            "No job matches this search. ", h.a("Show all jobs", href=JOBS), " or press ? for the words of it."
        )
    return empty("There are no jobs yet. Submit one with ", h.code("euterpe submit euterpe.echo"), ".")


def _row(job: JobRow, now: int) -> Html:
    error = job.error_document
    progress = f" {job.progress:.0f} %" if job.state is State.RUNNING and job.progress is not None else None
    return h.tr(
        h.td(state_mark(job.state, progress)),
        h.td(h.a(job.type, href=f"{JOBS}/{job.id}", class_="row-link"), class_="name"),
        h.td(job.queue, class_="name"),
        h.td(h.code(short_id(job.id), title=job.id)),
        h.td(f"{job.attempt_count}/{job.max_attempts}", class_="num"),
        h.td(moment(job.created_at, now), class_="num"),
        h.td(_waited(job, now), class_="num waited"),
        h.td(_ran(job, now), class_="num ran"),
        h.td(
            None if error is None else h.span(str(error.get("code")), title=str(error.get("message"))[:300]),
            class_="name",
        ),
        id=f"j-{job.id}",
    )


def due_at(job: JobRow) -> int:
    """Since when a worker could have taken it."""
    return max(job.scheduled_at or job.created_at, job.run_at)


def _waited(job: JobRow, now: int) -> str | None:
    if job.state is State.SCHEDULED:
        return duration(max(0, now - due_at(job)))
    if job.started_at is None or job.state is State.RETRYING:
        return None
    return duration(max(0, job.started_at - due_at(job)))


def _ran(job: JobRow, now: int) -> str | None:
    if job.started_at is None:
        return None
    if job.state is State.RUNNING:
        return duration(max(0, now - job.started_at))
    if job.state in TERMINAL and job.completed_at is not None:
        return duration(max(0, job.completed_at - job.started_at))
    return None
