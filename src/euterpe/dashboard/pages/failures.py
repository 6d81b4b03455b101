"""Failures by cause: two thousand of three kinds are three lines, each with a way to see, replay and export them."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlencode

import msgspec

from euterpe.dashboard.layout import FAILURES, JOBS, OPERATIONS, PageFrame, empty, grid, heading
from euterpe.dashboard.page_server import NoQuery, PageServer, to_sign_in
from euterpe.dashboard.pages.bulk import bulk_address
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import counted, moment
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.bulk import Action
from euterpe.model.failures.group import FailureGroup, FailureGroups
from euterpe.model.reading.document import rfc3339, status_document
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.overview import Count
from euterpe.model.reading.views import Search
from euterpe.ports import Store
from euterpe.server.http.asgi import Answer, Header, Request, Stream

GROUPS: Final = 50
EXPORT_PAGE: Final = 200
CSV_COLUMNS: Final = ("count", "exact", "type", "code", "category", "message", "first_at", "last_at", "fingerprint")


class ExportQuery(msgspec.Struct, frozen=True):
    """Which jobs to export; without a query, the groups."""

    q: str | None = None


class FailurePages:
    """The groups, and files of them."""

    def __init__(self, server: PageServer, store: Store) -> None:
        self._server = server
        self._store = store

    async def make(self, visitor: Visitor, _: NoQuery, __: Request) -> PageFrame:
        found = await self._store.failure_groups(visitor.sees, GROUPS)
        now = await self._store.now_us()
        return PageFrame("Failures", joined(heading("Failures"), _groups(found, visitor, now)), FAILURES)

    async def export(self, request: Request, said: ExportQuery) -> Answer | Stream:
        """Groups as CSV, or the jobs of a query as one JSON document a line. Without payloads and results."""
        visitor = await self._server.sign_in.visitor(request)
        if visitor is None:
            return to_sign_in(request)
        if not said.q:
            found = await self._store.failure_groups(visitor.sees, GROUPS)
            return Answer(200, _csv(found.groups), b"text/csv; charset=utf-8", _download("failures.csv"))
        search = parse_query(said.q, await self._store.now_us())
        search = msgspec.structs.replace(search, requester_id=visitor.sees, limit=EXPORT_PAGE)
        return Stream(self._lines(search), b"application/x-ndjson", _download("jobs.ndjson"))

    async def _lines(self, search: Search) -> AsyncIterator[bytes]:
        while True:
            page = await self._store.search(search)
            for job in page.jobs:
                document = status_document(job) | {"error": job.error_document}
                yield msgspec.json.encode(document) + b"\n"
            if page.cursor is None:
                return
            search = msgspec.structs.replace(search, cursor=page.cursor)


def _download(name: str) -> tuple[Header, ...]:
    return (
        (b"content-disposition", f'attachment; filename="{name}"'.encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    )


def _csv(groups: list[FailureGroup]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(CSV_COLUMNS)
    for group in groups:
        said = msgspec.structs.asdict(group)
        said |= {"first_at": rfc3339(group.first_at), "last_at": rfc3339(group.last_at)}
        writer.writerow([_harmless(str(said[name])) for name in CSV_COLUMNS])
    return file.getvalue().encode()


def _harmless(cell: str) -> str:
    """A spreadsheet takes such a beginning for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def query_of(group: FailureGroup) -> str:
    return f"fingerprint:{group.fingerprint}"


def _groups(found: FailureGroups, visitor: Visitor, now: int) -> Html:
    if not found.groups:
        return empty(
            "No failure waits for anybody: no job has failed, or whatever failed runs again as a new job. See the ",
            h.a("failed", href=f"{JOBS}?q=state:failed"),
            " and the ",
            h.a("dead-lettered", href=f"{JOBS}?q=state:dead_letter"),
            " jobs, or the ",
            h.a("operations", href=OPERATIONS),
            ".",
        )
    columns: list[Child] = ["Jobs", "Type", "Cause", "First", "Last", "See"]
    if visitor.is_admin:
        columns.append("Act")
    return joined(
        h.p(
            "Failed and dead-lettered jobs that nobody has run again yet, by type and cause; numbers and ids in "
            "messages count as alike. ",
            h.a("Export as CSV", href=f"{FAILURES}/export"),
            class_="soft lead",
        ),
        grid(
            columns,
            [_row(group, visitor, now) for group in found.groups],
            "Failures by cause, the latest first",
            "no-456",
        ),
        empty("There are more causes than are shown.") if found.more else None,
    )


def _row(group: FailureGroup, visitor: Visitor, now: int) -> Html:
    query = urlencode({"q": query_of(group)})
    cause = h.div(h.strong(group.code), f" ({group.category}): ", group.message, class_="error")
    return h.tr(
        h.td(h.strong(counted(Count(group.count, not group.exact))), class_="num"),
        h.td(h.a(group.type, href=f"{JOBS}?{query}", class_="row-link"), class_="name"),
        h.td(cause, class_="name"),
        h.td(moment(group.first_at, now), class_="num"),
        h.td(moment(group.last_at, now), class_="num"),
        h.td(
            h.a("latest", h.span(f" of {group.type}", class_="unseen"), href=f"{JOBS}/{group.sample_job_id}"),
            " · ",
            h.a("export", h.span(f" {group.type}", class_="unseen"), href=f"{FAILURES}/export?{query}"),
            class_="num",
        ),
        _acts(group) if visitor.is_admin else None,
        id=f"f-{group.fingerprint}",
    )


def _acts(group: FailureGroup) -> Html:
    about = h.span(f" {group.count} of {group.type}", class_="unseen")
    return h.td(h.a("Replay…", about, href=bulk_address(Action.REPLAY, query_of(group)), class_="button"), class_="num")
