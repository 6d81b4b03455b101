"""Looking at jobs: one, many with a cursor, their attempts, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.claims.attempt_log import AttemptLog, read_log
from euterpe.model.errors import InvalidInput
from euterpe.model.job import AttemptRow, JobRow
from euterpe.model.reading.views import Search, SearchPage
from euterpe.model.state import State
from euterpe.model.submitting.submission import KEY_LIMIT, NAME_LIMIT, check_text
from euterpe.stores.sql.maintenance.operator import found, possible_id
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.reads.scan import ALL_STATES, NEWEST, ScanRange, places_of_id, scan_range_of
from euterpe.stores.sql.rows import jobs_from

LOOKED_AT: Final = 1000
"""Of a queue's waiting jobs, to find those that no worker knows."""


_PAYLOAD = JobRow.__struct_fields__.index("payload")


def get(job_id: str, requester_id: str | None) -> Program[JobRow]:
    stored_id = possible_id(job_id)
    rows = yield one("get_jobs", ids=[stored_id])
    job = yield from found(rows, stored_id, requester_id)
    return (yield from with_dependencies([job]))[0]


def with_dependencies(jobs: list[JobRow]) -> Program[list[JobRow]]:
    """The jobs with the ids of what they depend on; asked for only where there is any."""
    dependents = [job.id for job in jobs if job.dependency is not None]
    if not dependents:
        return jobs
    ids: dict[str, list[str]] = {job_id: [] for job_id in dependents}
    for job_id, depends_on, _ in (yield one("dependency_ids", ids=dependents)):
        ids[job_id].append(depends_on)
    return [
        msgspec.structs.replace(job, depends_on=tuple(ids[job.id])) if job.dependency is not None else job
        for job in jobs
    ]


def attempts(job_id: str, requester_id: str | None) -> Program[list[AttemptRow]]:
    """Closed attempts, then the open one, which is read off the job's own row."""
    job = yield from get(job_id, requester_id)
    closed = [AttemptRow(*row) for row in (yield one("closed_attempts", id=job.id))]
    if job.state is State.RUNNING:
        closed.append(
            AttemptRow(
                job.id,
                job.claim_version,
                job.attempt_count,
                job.worker_id,
                job.started_at or 0,
                None,
                None,
                None,
            )
        )
    return closed


def attempt_logs(job_id: str, requester_id: str | None) -> Program[list[AttemptLog]]:
    job = yield from get(job_id, requester_id)
    rows = yield one("attempt_logs", id=job.id)
    return [read_log(row[0], row[1]) for row in rows]


def search(query: Search) -> Program[SearchPage]:
    """The next page. Without a `scan_limit` stretches are looked at one after the other until it is full."""
    check_search(query)
    before = _parse_cursor(query.cursor)
    if query.text is not None:
        places = yield from places_of_id(query.text)
        found: list[JobRow] = []
        for place in places:
            if place < before:
                found += (yield from _page(query, ScanRange(place + 1, place, more=False))).jobs
        if found:
            return SearchPage(found, None)
    stretch = yield from scan_range_of(query, before)
    page = yield from _page(query, stretch, query.text)
    while query.scan_limit is None and stretch.more and page.cursor == str(stretch.down_to):
        stretch = yield from scan_range_of(query, stretch.down_to)
        rest = msgspec.structs.replace(
            query, limit=query.limit - len(page.jobs), max_bytes=query.max_bytes - sum(map(_size, page.jobs))
        )
        if rest.limit == 0 or rest.max_bytes <= 0:
            break
        more = yield from _page(rest, stretch, query.text)
        page = SearchPage([*page.jobs, *more.jobs], more.cursor)
    return page


def _size(job: JobRow) -> int:
    return len(job.payload) + len(job.result or b"") + len(job.checkpoint or b"")


def check_search(query: Search) -> None:
    """InvalidInput names what cannot be asked for."""
    if not 1 <= query.limit <= 1000:
        raise InvalidInput("limit", f"{query.limit} is not between 1 and 1000")
    for field in ("requester_id", "type", "type_prefix", "queue", "error"):
        value = getattr(query, field)
        if value is not None:
            check_text(field, value, NAME_LIMIT)
    for value in (part for tag in query.every_tag for part in tag):
        check_text("tag", value, KEY_LIMIT)
    if query.text is not None:
        check_text("text", query.text, KEY_LIMIT)
    _parse_cursor(query.cursor)


def _page(query: Search, stretch: ScanRange, correlation_id: str | None = None) -> Program[SearchPage]:
    rows = yield one(
        "search" if query.fingerprint is None else "search_group",
        **criteria(query, stretch, correlation_id),
        limit=query.limit + 1,
        max_bytes=query.max_bytes,
    )
    page = yield from with_dependencies(jobs_from(row for row in rows[: query.limit] if row[_PAYLOAD] is not None))
    if len(rows) > len(page):
        return SearchPage(page, str(page[-1].seq))
    return SearchPage(page, str(stretch.down_to) if stretch.more else None)


def criteria(query: Search, stretch: ScanRange, correlation_id: str | None = None) -> dict[str, object]:
    """What every statement that finds jobs by a query asks for."""
    values: dict[str, object] = {
        "states": ALL_STATES if query.state is None else [query.state],
        "before": stretch.before,
        "down_to": stretch.down_to,
        "requester_id": query.requester_id,
        "type": query.type,
        "type_prefix": query.type_prefix,
        "queue": query.queue,
        "created_after": query.created_after,
        "created_before": query.created_before,
        "ended_after": query.ended_after,
        "ended_before": query.ended_before,
        "replayed": query.replayed,
        "correlation_id": correlation_id,
        "error": None if query.error is None else msgspec.json.encode(query.error).decode(),
        "tags": [_tag_text(tag) for tag in query.every_tag],
    }
    return values if query.fingerprint is None else values | {"fingerprint": query.fingerprint}


def _tag_text(tag: tuple[str, str]) -> str:
    """A tag as it stands in the stored JSON. Quotes inside are escaped there, so the text is found only where the tag
    is; and a row whose tags are no JSON cannot make the search fail."""
    return msgspec.json.encode({tag[0]: tag[1]}).decode()[1:-1]


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return NEWEST
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidInput("cursor", f"{cursor!r} did not come from an earlier page")
    return int(cursor)


def unknown_types(queues: Sequence[str], types: Sequence[str]) -> Program[dict[str, int]]:
    """Scheduled jobs that no handler here fits, by type, among those that are next."""
    unknown: Counter[str] = Counter()
    for queue in queues:
        rows = yield one("unknown_types", queue=queue, types=list(types), limit=LOOKED_AT)
        unknown.update({row[0]: row[1] for row in rows})
    return dict(unknown)


def now_us() -> Program[int]:
    rows = yield one("clock")
    now: int = rows[0][0]
    return now
