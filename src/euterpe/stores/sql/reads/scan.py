"""How far a search looks: between which places, and by which ids. A place (`seq`) grows with every job submitted."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from euterpe.model.reading.views import SCAN_LIMIT, Search
from euterpe.model.state import State
from euterpe.stores.sql.program import Program, one

NEWEST: Final = 2**62
ALL_STATES: Final = [str(state) for state in State]
CLOCK_SLACK_US: Final = 3_600_000_000
"""Jobs are stored nearly in the order of their creation; a database's clock that was set back by less than this is no
reason to miss one."""
NEAR_ENOUGH: Final = 64
"""Places: a boundary in time is found to within so many."""
ALIKE: Final = 20
"""Ids that begin alike. With eight characters of an id that is one job, or a joke."""
_BEGINNING: Final = re.compile(r"[0-9a-f]{8,32}", re.ASCII)


class ScanRange(NamedTuple):
    """Places to look at: below `before`, down to and with `down_to`. `more`: there may be others below."""

    before: int
    down_to: int
    more: bool


def scan_range_of(query: Search, before: int) -> Program[ScanRange]:
    down_to, before = yield from _created_between(query, before)
    if query.fingerprint is not None:
        return ScanRange(before, down_to, more=False)  # Failures of one cause have an index of their own.
    scan_limit = SCAN_LIMIT if query.scan_limit is None else query.scan_limit
    edge: int | None
    if query.state is None:
        newest = yield from _newest_below(before)
        edge = None if newest is None else newest[0] - scan_limit
        if edge is not None and (edge < down_to or (yield from _newest_below(edge + 1)) is None):
            edge = None
    else:
        kinds = {"type": query.type, "type_prefix": query.type_prefix, "queue": query.queue}
        rows = yield one("scan_edge", state=query.state, before=before, skip=scan_limit, **kinds)
        edge = rows[0][0] if rows and rows[0][0] >= down_to else None
    return ScanRange(before, down_to, more=False) if edge is None else ScanRange(before, edge + 1, more=True)


def _created_between(query: Search, before: int) -> Program[tuple[int, int]]:
    """(down_to, before) of the jobs that may have been created in time."""
    down_to = 0
    if query.created_after is not None:
        down_to, _ = yield from _around(query.created_after - CLOCK_SLACK_US)
    if query.created_before is not None:
        _, above = yield from _around(query.created_before + CLOCK_SLACK_US)
        before = min(before, above)
    return down_to, before


def _around(at_us: int) -> Program[tuple[int, int]]:
    """Places a little below and a little above the last job that was created by then."""
    newest = yield from _newest_below(NEWEST)
    if newest is None or newest[1] <= at_us:
        return (0 if newest is None else newest[0]), NEWEST
    low, high = 0, newest[0]
    while high - low > NEAR_ENOUGH:
        middle = (low + high) // 2
        found = yield from _newest_below(middle + 1)
        if found is None or found[1] <= at_us:
            low = middle
        else:
            high = found[0]
    return low, high + 1


def _newest_below(before: int) -> Program[tuple[int, int] | None]:
    rows = yield one("job_below", before=before)
    return (rows[0][0], rows[0][1]) if rows else None


def newest_place() -> Program[int]:
    """Of the newest job; 0 without any."""
    newest = yield from _newest_below(NEWEST)
    return 0 if newest is None else newest[0]


def places_of_id(text: str) -> Program[list[int]]:
    """Of the jobs whose id this is, or whose ids begin so; newest first."""
    digits = text.strip().lower().replace("-", "")
    if not _BEGINNING.fullmatch(digits):
        return []
    low, high = (_with_dashes(digits.ljust(32, fill)) for fill in "0f")
    rows = yield one("ids_between", low=low, high=high, limit=ALIKE)
    return sorted((row[0] for row in rows), reverse=True)


def _with_dashes(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
