"""Which jobs a query matches, without reading them: for counting them, and for acting on all of them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from euterpe.model.bulk import COUNTED, DEPENDENTS_OF, LOOKED_AT, JobCount
from euterpe.model.reading.views import PAGE_BYTES, SCAN_LIMIT, Search
from euterpe.model.state import TERMINAL, State
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.reads.failures import cause_of
from euterpe.stores.sql.reads.scan import NEWEST, ScanRange, places_of_id, scan_range_of
from euterpe.stores.sql.reads.search import check_search, criteria


class Matching(NamedTuple):
    """Jobs below a place, newest first, and the place to go on from; None: there are no others."""

    ids: list[str]
    places: list[int]
    next_place: int | None


def matching(query: Search, before: int, limit: int) -> Program[Matching]:
    """The next of them. There may be none this time, and others further down."""
    if query.text is not None:
        rows: list[Row] = []
        for place in (yield from places_of_id(query.text)):
            if place < before:
                rows += yield one(
                    _statement(query), **criteria(query, ScanRange(place + 1, place, more=False)), limit=1
                )
        if rows:
            return Matching([row[1] for row in rows], [row[0] for row in rows], None)
    stretch = yield from scan_range_of(query, before)
    rows = yield one(_statement(query), **criteria(query, stretch, query.text), limit=limit)
    cut = _up_to_size_limit(rows)
    if cut and (len(cut) < len(rows) or len(rows) == limit):
        return Matching([row[1] for row in cut], [row[0] for row in cut], cut[-1][0])
    return Matching([r[1] for r in cut], [r[0] for r in cut], stretch.down_to if stretch.more else None)


def _up_to_size_limit(rows: list[Row]) -> list[Row]:
    """The first of them, up to the bytes of a page: all are read at once later."""
    size = 0
    for i, row in enumerate(rows):
        size += row[2]
        if i and size > PAGE_BYTES:
            return rows[:i]
    return rows


def _statement(query: Search) -> str:
    return "matching" if query.fingerprint is None else "matching_group"


def count(query: Search) -> Program[JobCount]:
    """Up to `COUNTED`, and looking at no more than `LOOKED_AT` jobs."""
    counted = yield from _count(query)
    if query.fingerprint is None:
        return counted
    cause = yield from cause_of(query.fingerprint, query.requester_id)
    return msgspec.structs.replace(counted, cause=cause)


def _count(query: Search) -> Program[JobCount]:
    check_search(query)
    query = msgspec.structs.replace(query, scan_limit=SCAN_LIMIT)
    if query.text is not None:
        found = yield from matching(query, NEWEST, COUNTED)
        if found.ids and found.next_place is None:
            return JobCount(len(found.ids), exact=True)
    total, before = 0, NEWEST
    for _ in range(LOOKED_AT // SCAN_LIMIT):
        stretch = yield from scan_range_of(query, before)
        ((more,),) = yield one(
            f"count_{_statement(query)}", **criteria(query, stretch, query.text), limit=COUNTED + 1 - total
        )
        total += more
        if total > COUNTED:
            return JobCount(COUNTED, exact=False)
        if not stretch.more:
            return JobCount(total, exact=True)
        before = stretch.down_to
    return JobCount(total, exact=False)


def count_with_dependents(query: Search) -> Program[JobCount]:
    """And how many more would be replayed with the newest of them."""
    counted = yield from count(query)
    found = yield from matching(msgspec.structs.replace(query, scan_limit=SCAN_LIMIT), NEWEST, DEPENDENTS_OF)
    seen, more = set(found.ids), 0
    ended = (yield from _ended_badly(found.ids)) if found.ids else []
    while (edge := [end.job_id for end in ended if end.has_dependents]) and more <= COUNTED:
        fresh = sorted({row[0] for row in (yield one("dependents_of", ids=edge))} - seen)
        seen.update(fresh)
        ended = [end for end in (yield from _ended_badly(fresh)) if end.by_another] if fresh else []
        more += len(ended)
    return msgspec.structs.replace(
        counted, dependents=more, dependents_exact=found.next_place is None and more <= COUNTED
    )


class _End(NamedTuple):
    job_id: str
    state: State
    has_dependents: bool
    by_another: bool


def _ended_badly(ids: list[str]) -> Program[list[_End]]:
    ends = [_End(*row) for row in (yield one("ends_of", ids=ids))]
    return [end for end in ends if end.state in TERMINAL and end.state != State.COMPLETED]
