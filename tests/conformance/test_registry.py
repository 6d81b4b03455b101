"""Who is alive: workers tell it, end, and fall silent, on every engine."""

from __future__ import annotations

from typing import Any

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.presence import SILENCE_US, BreakerState, Presence, TrippedBreaker, WorkerFacts
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import complete, submit
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables
from tests.conformance.needs import needs

pytestmark = needs(Capability.WORKERS)

FACTS = WorkerFacts(
    queues=("default", "mail"),
    types=("report.render", "päck"),
    slots=20,
    running=3,
    host="web-1",
    pid=4711,
    version="0.1.0",
    stopping=True,
    breakers=(
        TrippedBreaker("mail", "report.render", BreakerState.OPEN, 30_000_000),
        TrippedBreaker("default", "päck", BreakerState.HALF_OPEN),
        TrippedBreaker("mail", "päck", BreakerState.OPEN, 5, "ann", "store.example/bücket"),
    ),
)


def presence(worker_id: str, up_us: int = 0, **facts: Any) -> Presence:
    return Presence(worker_id=worker_id, facts=WorkerFacts(**{"queues": ("default",)} | facts), up_us=up_us)


async def names(store: SqlStore) -> list[str]:
    return [worker.worker_id for worker in await store.workers.list()]


async def test_a_worker_that_tells_of_itself_is_listed_with_all_that_it_told(
    store: SqlStore, clock: FrozenClock
) -> None:
    await store.workers.register([Presence(worker_id="w'1", facts=FACTS, up_us=5_000_000)])
    (found,) = await store.workers.list()
    assert found.facts == FACTS
    assert (found.worker_id, found.started_at, found.seen_at) == ("w'1", clock() - 5_000_000, clock())
    assert found.open_until("mail", "report.render") == clock() + 30_000_000
    assert found.open_until("default", "päck") is None
    assert found.open_until("mail", "päck") is None, "it is open for one requester alone"


async def test_what_it_tells_again_replaces_what_it_told_and_not_when_it_started(
    store: SqlStore, clock: FrozenClock
) -> None:
    await store.workers.register([presence("w1", running=0)])
    began = clock()
    clock.advance(us=20_000_000)
    await store.workers.register([presence("w1", up_us=20_000_123, running=7)])
    (found,) = await store.workers.list()
    assert (found.facts.running, found.started_at, found.seen_at) == (7, began, clock())


async def test_one_that_has_ended_is_gone_at_once_and_may_say_so_twice(store: SqlStore) -> None:
    await store.workers.register([presence("w2"), presence("w1")])
    assert await names(store) == ["w1", "w2"]
    for _ in range(2):
        await store.workers.unregister("w1")
        assert await names(store) == ["w2"]


async def test_one_that_is_silent_is_not_alive_until_it_speaks_again(store: SqlStore, clock: FrozenClock) -> None:
    await store.workers.register([presence("silent"), presence("speaks")])
    clock.advance(us=SILENCE_US - 1)
    assert await names(store) == ["silent", "speaks"]
    await store.workers.register([presence("speaks")])
    clock.advance(us=1)
    assert await names(store) == ["speaks"]
    await store.workers.register([presence("silent")])
    assert await names(store) == ["silent", "speaks"]


async def test_every_process_sees_the_workers_of_all(subject: Opened, store: SqlStore) -> None:
    async with subject.another() as other:
        await other.workers.register([presence("there")])
        await store.workers.register([presence("here")])
        assert await names(other) == ["here", "there"]
    assert await names(store) == ["here", "there"]


async def test_a_list_is_as_long_as_was_asked_for(store: SqlStore) -> None:
    await store.workers.register([presence(f"w{n}") for n in range(5)])
    assert len(await store.workers.list(3)) == 3
    await store.workers.register([])
    assert len(await store.workers.list()) == 5


async def test_what_the_silent_left_is_swept_away(store: SqlStore, tables: Tables, clock: FrozenClock) -> None:
    await store.workers.register([presence("silent")])
    clock.advance(us=SILENCE_US)
    await store.workers.register([presence("alive")])
    await store.sweeps.prune()
    assert await tables.run("SELECT worker_id FROM euterpe_workers") == [("alive",)]


async def test_one_that_is_silent_and_keeps_its_leases_is_listed_as_not_answering(
    store: SqlStore, clock: FrozenClock
) -> None:
    """Its handler blocks the process; its lease keeper is alive."""
    await submit(store, "long")
    await store.workers.register([presence("blocked", slots=1), presence("dead")])
    (claim,) = await store.claim(ClaimRequest(worker_id="blocked", queues=("default",), limit=1))
    seen_at = clock()
    for _ in range(8):  # As its lease keeper does.
        clock.advance(us=SILENCE_US // 4)
        await store.heartbeat([claim.lease])
    await store.workers.register([presence("other")])  # This forgets the silent on Redis.
    await store.sweeps.prune()
    blocked, other = await store.workers.list()
    assert (blocked.worker_id, blocked.answers, blocked.seen_at) == ("blocked", False, seen_at)
    assert (other.worker_id, other.answers) == ("other", True)
    await complete(store, claim)
    assert await names(store) == ["other"], "nothing tells of it any more"
