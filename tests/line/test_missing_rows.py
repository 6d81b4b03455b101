"""Jobs of a run that are not there any more: somebody ended them or deleted their rows by hand (rule 23)."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import MINUTE, take
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.line.acts import bulk, runs

LOT = 40
GONE = {
    "deleted": "DELETE FROM inbox_jobs",
    "ended": "UPDATE inbox_jobs SET state = 'cancelled', completed_at = 1, updated_at = 1, listed = 'cancelled'",
}
QUEUES = {"one queue": ("default",), "several queues": ("first", "default")}


async def claim_ids(store: SqlStore, *, over_http: bool, limit: int, queues: tuple[str, ...]) -> list[str]:
    if over_http:
        request = ClaimRequest(worker_id="", limit=limit, queues=queues)
        return [c.job.id for c in await store.control_plane.claim_for(request, ["w"] * limit)]
    return [c.job.id for c in await take(store, limit, queues=queues)]


@pytest.mark.parametrize("how", GONE)
@pytest.mark.parametrize("queues", QUEUES)
@pytest.mark.parametrize("over_http", [False, True], ids=["worker", "http"])
async def test_what_is_gone_from_the_front_of_a_run_does_not_hold_up_the_queue(
    store: SqlStore, tables: PostgresTables, how: str, queues: str, over_http: bool
) -> None:
    ids = await bulk(store, LOT)
    gone = ", ".join(f"'{job_id}'" for job_id in ids[:20])
    await tables.run(f"{GONE[how]} WHERE id IN ({gone})")
    claimed: list[str] = []
    for _ in range(10):
        claimed += await claim_ids(store, over_http=over_http, limit=5, queues=QUEUES[queues])
    assert claimed == ids[20:]
    assert await runs(tables) == []


async def test_a_run_of_which_nothing_is_left_is_gone_after_its_lifetime(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    await bulk(store, LOT, lifetime_us=MINUTE)
    await tables.run("DELETE FROM inbox_jobs")
    clock.advance(seconds=61)
    await store.sweeps.end_lifetimes()
    stats: Any = await store.stats()
    assert stats.by_state == {}
    assert await runs(tables) == []
