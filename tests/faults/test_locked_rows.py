"""Claims and sweeps that meet a row which somebody is just changing: what they decide holds for it as it is then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.events.outbox import Delivery, OutboxEvent
from euterpe.model.retention import Retention
from euterpe.model.state import State
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.exchange.plain import PlainCompletions
from euterpe.stores.sql.exchange.turn import turn
from euterpe.stores.sql.outbox import events
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def engine(fresh_postgres_url: str, clock: FrozenClock) -> PostgresEngine:
    return PostgresEngine(fresh_postgres_url, clock)


@pytest.fixture
async def store(engine: PostgresEngine) -> AsyncIterator[SqlStore]:
    store = SqlStore(engine)
    await engine.migrate()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(engine: PostgresEngine, store: SqlStore) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await engine.connect()
    yield connection
    await connection.close()


async def done_or_waiting_for(task: asyncio.Task[Any], holder: asyncpg.Connection[Any], engine: PostgresEngine) -> None:
    """Until the task is through, or the server says that something of it waits for the holder."""
    watcher = await engine.connect()
    waits = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))"
    while not task.done() and not await watcher.fetchval(waits, holder.get_server_pid()):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    await watcher.close()


def _delivered(event: OutboxEvent) -> Delivery:
    return Delivery(
        event_id=event.id,
        claim_version=event.claim_version,
        state=State.COMPLETED,
        outcome="delivered",
        http_status=200,
    )


async def complete_all(store: SqlStore) -> None:
    claims = await store.claim(ClaimRequest(worker_id="w", limit=10))
    await store.settle([Report(claim, Success(b"1")) for claim in claims])


async def test_a_claim_takes_nothing_that_another_is_just_taking(
    engine: PostgresEngine, store: SqlStore, other: asyncpg.Connection[Any]
) -> None:
    """Its snapshot shows these jobs as free."""
    ids = [(await store.submit(Submission(type="mail"))).job_id for _ in range(4)]
    transaction = other.transaction()
    await transaction.start()
    request = ClaimRequest(worker_id="rival", limit=2)
    rivals = (await engine.pump(other, turn(PlainCompletions(), request))).claims
    claiming = asyncio.create_task(store.claim(ClaimRequest(worker_id="w", limit=2)))
    await done_or_waiting_for(claiming, other, engine)
    await transaction.commit()
    given = [claim.job.id for claim in (*rivals, *await claiming)]
    assert given == ids, "jobs were given to more than one"


async def test_a_key_that_a_submit_is_just_renewing_is_not_expired(
    engine: PostgresEngine, store: SqlStore, other: asyncpg.Connection[Any], clock: FrozenClock
) -> None:
    await store.submit(Submission(type="mail", idempotency_key="k"))
    await complete_all(store)
    clock.advance(days=3)
    transaction = other.transaction()
    await transaction.start()
    unit = Unit(drafts_of([Submission(type="mail", idempotency_key="k")]))
    (second,) = await store.submit_unit_on(unit, other)
    assert not second.replayed
    expiring = asyncio.create_task(store.sweeps.expire_keys())
    await done_or_waiting_for(expiring, other, engine)
    await transaction.commit()
    await expiring
    again = await store.submit(Submission(type="mail", idempotency_key="k"))
    assert (again.job_id, again.replayed) == (second.job_id, True)


async def test_an_event_that_is_just_redelivered_is_not_pruned(
    engine: PostgresEngine, store: SqlStore, other: asyncpg.Connection[Any], clock: FrozenClock
) -> None:
    await store.submit(Submission(type="mail", callback_url="https://receiver.example/", callback_events="terminal"))
    await complete_all(store)
    (event,) = await store.outbox.claim("w", 10)
    await store.outbox.settle([_delivered(event)])
    clock.advance(days=30)
    transaction = other.transaction()
    await transaction.start()
    await engine.pump(other, events.redeliver(event.id, None))
    pruning = asyncio.create_task(store.sweeps.prune(Retention(completed_us=2**50)))
    await done_or_waiting_for(pruning, other, engine)
    await transaction.commit()
    await pruning
    assert (await store.outbox.get(event.id)).state == State.SCHEDULED


async def test_a_job_that_was_held_when_a_place_of_its_key_came_free_gets_it(
    store: SqlStore, other: asyncpg.Connection[Any]
) -> None:
    jobs = [Submission(type="mail", concurrency_key="k", concurrency_limit=2) for _ in range(3)]
    waiting = (await store.submit_many(jobs))[2].job_id
    first, _ = await store.claim(ClaimRequest(worker_id="w", limit=10))
    async with other.transaction():
        await other.fetch("SELECT 1 FROM inbox_jobs WHERE id = $1 FOR UPDATE", waiting)
        await store.settle([Report(first, Success(b"1"))])
        assert await store.claim(ClaimRequest(worker_id="w", limit=10)) == []
    assert [claim.job.id for claim in await store.claim(ClaimRequest(worker_id="w", limit=10))] == [waiting]
