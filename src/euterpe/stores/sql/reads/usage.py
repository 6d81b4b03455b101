"""How much each requester has waiting, for quotas. A short statement counts a stretch of the jobs of one state."""

from __future__ import annotations

from functools import partial

from euterpe.model.reading.views import Search, Usage
from euterpe.model.state import TERMINAL, State
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.reads.scan import NEWEST, scan_range_of
from euterpe.stores.sql.reads.search import criteria


async def usage(engine: Engine, *, of_jobs: bool, of_keys: bool) -> dict[str, Usage]:
    """A job that moves while it is counted may be counted twice, or not at all."""
    found: dict[str, Usage] = {}
    for state in (state for state in State if of_jobs and state not in TERMINAL):
        before: int | None = NEWEST
        while before is not None:
            before = await engine.read(partial(_add_jobs, found, state, before))
    if of_keys:
        await engine.read(lambda: _add_keys(found))
    return found


def _add_jobs(found: dict[str, Usage], state: State, before: int) -> Program[int | None]:
    """The next stretch of a state; returns where to go on."""
    query = Search(state=state)
    stretch = yield from scan_range_of(query, before)
    for requester_id, jobs, payload_bytes in (
        yield one("waiting_by_requester", **criteria(query, stretch), limit=NEWEST)
    ):
        has = found.setdefault(requester_id, Usage())
        has.jobs += jobs
        has.payload_bytes += int(payload_bytes)
    return stretch.down_to if stretch.more else None


def _add_keys(found: dict[str, Usage]) -> Program[None]:
    for scope, count in (yield one("keys_by_requester")):
        found.setdefault(scope.partition(":")[2], Usage()).keys += count
