"""Callers that keep their transaction open: whoever works on what they depend on goes on, and no end is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from euterpe.model.claims.exchange import LEASE_TTL_US, ClaimRequest, Report, SettleResult
from euterpe.model.claims.outcome import Failed, Outcome, Success
from euterpe.model.dependency import Dependency
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.retention import Retention
from euterpe.model.state import State
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.exchange import postgres as jobs_exchange
from euterpe.stores.sql.postgres.engine import PostgresEngine, split_url
from euterpe.stores.sql.postgres.session import LOCK_WAIT_S
from euterpe.stores.sql.program import Row, Statement
from euterpe.stores.sql.store import SqlStore
from tests.caller.callers import POSTGRES, Caller, Place
from tests.conformance.clock import FrozenClock
from tests.patience import PATIENCE_S

BY_HALF_A_LEASE = LEASE_TTL_US // 2
"""Whoever waits for an open transaction waits for ever."""
BROKEN = Failed(Failure(Category.PERMANENT, "broken"))


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def store(fresh_postgres_url: str, clock: FrozenClock) -> AsyncIterator[SqlStore]:
    store = SqlStore(PostgresEngine(fresh_postgres_url, clock))
    await store.engine.migrate()
    await store.open()
    yield store
    await store.close()


@pytest.fixture(params=list(POSTGRES))
async def caller(request: pytest.FixtureRequest, fresh_postgres_url: str, store: SqlStore) -> AsyncIterator[Caller]:
    dsn, options = split_url(fresh_postgres_url)
    caller = POSTGRES[request.param](Place(dsn=dsn, schema=options["schema"]))
    await caller.open()
    yield caller
    await caller.close()


with_one_caller = pytest.mark.parametrize("caller", ["asyncpg"], indirect=True)


async def submit(store: SqlStore, type: str = "work", **said: Any) -> str:
    return (await store.submit(Submission(type=type, **said))).job_id


async def submit_on(store: SqlStore, caller: Caller, **said: Any) -> str:
    unit = Unit(drafts_of([Submission(type="after", **said)]))
    return (await store.submit_unit_on(unit, caller.connection))[0].job_id


async def take(store: SqlStore, limit: int = 100, **asked: Any) -> list[Claim]:
    return await store.claim(ClaimRequest(worker_id="w", limit=limit, **asked))


async def taken(store: SqlStore, type: str = "work", **said: Any) -> Claim:
    await submit(store, type, **said)
    (claim,) = await take(store, types=(type,))
    return claim


async def end(store: SqlStore, claim: Claim, outcome: Outcome | None = None) -> SettleResult:
    async with asyncio.timeout(PATIENCE_S):
        (verdict,) = await store.settle([Report(claim, outcome or Success(b"1"))])
    return verdict


async def state_of(store: SqlStore, job_id: str) -> State:
    return (await store.get(job_id)).state


@pytest.mark.parametrize("how", ["commit", "rollback"])
async def test_a_transaction_open_past_several_leases_costs_nobody_a_lease(
    store: SqlStore, caller: Caller, clock: FrozenClock, how: str
) -> None:
    for _ in range(5):
        await submit(store)
    waiting = await submit(store, "later")
    claims = await take(store, types=("work",))
    parent = claims[2]
    await caller.begin()
    dependent = await submit_on(store, caller, depends_on=(parent.job.id, waiting))
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(8):
            clock.advance(us=BY_HALF_A_LEASE)
            beats = await store.heartbeat([claim.lease for claim in claims])
            assert all(beat.alive and beat.renewed for beat in beats)
            assert await store.sweeps.reclaim() == 0
        (other,) = await take(store)
        assert other.job.id == waiting
        verdicts = await store.settle([Report(claim, Success(b"1")) for claim in (*claims, other)])
        assert all(verdict.accepted for verdict in verdicts)
    await (caller.commit() if how == "commit" else caller.rollback())
    assert await take(store) == []
    await store.sweeps.recover()
    assert [claim.job.id for claim in await take(store)] == ([dependent] if how == "commit" else [])
    attempts = [await store.attempts(claim.job.id) for claim in claims]
    assert [len(tries) for tries in attempts] == [1] * 5


@with_one_caller
@pytest.mark.parametrize(
    ("kind", "outcome", "expected"),
    [
        (Dependency.AFTER, Success(b"1"), State.SCHEDULED),
        (Dependency.AFTER, BROKEN, State.FAILED),
        (Dependency.AFTER_ANY, BROKEN, State.SCHEDULED),
        (Dependency.CHAIN, BROKEN, State.CANCELLED),
        (Dependency.FAN_IN, Success(b"1"), State.SCHEDULED),
    ],
)
@pytest.mark.parametrize("when", ["before the commit", "after the commit", "when it is watched"])
async def test_an_end_at_any_moment_reaches_the_dependent(
    store: SqlStore, caller: Caller, kind: Dependency, outcome: Outcome, expected: State, when: str
) -> None:
    parent = await taken(store)
    await caller.begin()
    dependent = await submit_on(
        store, caller, depends_on=(parent.job.id,), dependency=kind, callback_url="https://receiver.example/"
    )
    further = await submit_on(store, caller, depends_on=(dependent,))
    if when == "before the commit":
        await end(store, parent, outcome)
    await caller.commit()
    if when == "after the commit":
        await end(store, parent, outcome)
    await store.sweeps.recover()
    if when == "when it is watched":
        assert await state_of(store, dependent) is State.PENDING
        await end(store, parent, outcome)
    assert await state_of(store, dependent) is expected
    assert await state_of(store, further) is (State.PENDING if expected is State.SCHEDULED else expected)
    told = [event.type for _, event in await store.outbox.search(job_id=dependent)]
    assert told == ([] if expected is State.SCHEDULED else [f"job.{expected}"])


@with_one_caller
async def test_a_fan_in_waits_for_the_child_that_was_spawned_while_the_transaction_was_open(
    store: SqlStore, caller: Caller
) -> None:
    parent = await taken(store)
    await caller.begin()
    dependent = await submit_on(store, caller, depends_on=(parent.job.id,), dependency=Dependency.FAN_IN)
    async with asyncio.timeout(PATIENCE_S):
        await store.spawn(parent.lease, [Submission(type="child")])
        await end(store, parent)
    await caller.commit()
    await store.sweeps.recover()
    assert await state_of(store, dependent) is State.PENDING
    (child,) = await take(store)
    await end(store, child)
    assert await state_of(store, dependent) is State.SCHEDULED


@with_one_caller
async def test_an_end_that_retention_was_faster_to_remove_still_counts(
    store: SqlStore, caller: Caller, clock: FrozenClock
) -> None:
    parent = await taken(store)
    await caller.begin()
    dependent = await submit_on(store, caller, depends_on=(parent.job.id,))
    await end(store, parent, BROKEN)
    clock.advance(seconds=1)
    assert await store.sweeps.prune(Retention(failed_us=0)) == 1
    await caller.commit()
    await store.sweeps.recover()
    assert await state_of(store, dependent) is State.FAILED


@with_one_caller
async def test_a_dependent_whose_kind_cannot_be_read_ends_alone(
    store: SqlStore, caller: Caller, clock: FrozenClock
) -> None:
    """Its neighbours are watched, and the same recovery takes lost jobs back."""
    parent = await taken(store)
    await caller.begin()
    first, bad, last = [await submit_on(store, caller, depends_on=(parent.job.id,)) for _ in range(3)]
    await caller.commit()
    rows = await store.engine.connect()  # type: ignore[attr-defined]
    await rows.execute("UPDATE inbox_jobs SET dependency = 'nonsense' WHERE id = $1", bad)
    await rows.close()
    lost = await taken(store, "lost")
    clock.advance(us=2 * LEASE_TTL_US)
    await store.heartbeat([parent.lease])
    swept = await store.sweeps.recover()
    assert (swept.failures, swept.reclaimed) == ((), 1)
    assert await state_of(store, lost.job.id) is State.RETRYING
    await end(store, parent)
    assert [await state_of(store, i) for i in (first, bad, last)] == [
        State.SCHEDULED,
        State.DEAD_LETTER,
        State.SCHEDULED,
    ]
    assert (await store.get(bad)).error_document["code"] == "unprocessable_row"  # type: ignore[index]


# --- whoever else holds a row ---------------------------------------------------------------------


@pytest.fixture
def holder(fresh_postgres_url: str, store: SqlStore) -> Any:
    dsn, options = split_url(fresh_postgres_url)
    with psycopg.connect(dsn, options=f"-c search_path={options['schema']}") as connection:
        yield connection


def hold(holder: Any, job_id: str) -> None:
    holder.execute("SELECT 1 FROM inbox_jobs WHERE id = %s FOR UPDATE", [job_id])


async def test_a_heartbeat_renews_all_leases_but_the_one_that_somebody_holds(
    store: SqlStore, holder: Any, clock: FrozenClock
) -> None:
    for _ in range(5):
        await submit(store)
    claims = await take(store)
    hold(holder, claims[1].job.id)
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(4):
            clock.advance(us=BY_HALF_A_LEASE)
            beats = await store.heartbeat([claim.lease for claim in claims])
            assert [beat.alive for beat in beats] == [True] * 5
            assert [beat.renewed for beat in beats] == [True, False, True, True, True]
            assert await store.sweeps.reclaim() == 0
    holder.rollback()
    beats = await store.heartbeat([claim.lease for claim in claims])
    assert [beat.renewed for beat in beats] == [True] * 5
    assert await store.sweeps.reclaim() == 0


async def test_a_heartbeat_comes_back_for_a_row_that_is_let_go_at_once(
    store: SqlStore, holder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.jobs.heartbeat.HEARTBEAT_WAIT_MS", int(1000 * PATIENCE_S))
    claim = await taken(store)
    hold(holder, claim.job.id)
    beating = asyncio.create_task(store.heartbeat([claim.lease]))
    await waits_for(store, holder, beating)
    holder.rollback()
    (beat,) = await beating
    assert beat.alive
    assert beat.renewed


async def test_a_claim_that_is_gone_is_lost_and_not_merely_held(store: SqlStore) -> None:
    claim = await taken(store)
    await end(store, claim)
    (beat,) = await store.heartbeat([claim.lease])
    assert not beat.alive


@pytest.mark.parametrize("kind", ["plain", "with dependents", "with a callback", "failed"])
async def test_a_turn_settles_and_claims_beside_a_row_that_somebody_holds(
    store: SqlStore, holder: Any, kind: str
) -> None:
    said = {"callback_url": "https://receiver.example/"} if kind == "with a callback" else {}
    for _ in range(4):
        await submit(store, **said)
    claims = await take(store)
    if kind == "with dependents":
        for claim in claims:
            await submit(store, "after", depends_on=(claim.job.id,))
    fresh = await submit(store, "fresh")
    hold(holder, claims[2].job.id)
    finished = [Report(claim, BROKEN if kind == "failed" else Success(b"1")) for claim in claims]
    async with asyncio.timeout(PATIENCE_S):
        verdicts, next_claims = await store.exchange(finished, ClaimRequest(worker_id="w", limit=1, types=("fresh",)))
        assert [verdict.accepted for verdict in verdicts] == [True, True, False, True]
        assert [verdict.locked for verdict in verdicts] == [False, False, True, False]
        assert [claim.job.id for claim in next_claims] == [fresh]
        (verdict,) = await store.settle([finished[2]])
        assert verdict.locked
    holder.rollback()
    assert (await end(store, claims[2], finished[2].outcome)).accepted
    assert (await end(store, claims[2], finished[2].outcome)).accepted  # as a lost answer is asked for again
    assert len(await store.attempts(claims[2].job.id)) == 1


async def test_many_held_rows_are_waited_for_together(
    store: SqlStore, holder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.submit_many([Submission(type="work")] * 70)
    finished = [Report(claim, Success(b"1")) for claim in await take(store)]
    for report in finished[:60]:
        hold(holder, report.claim.job.id)
    async with asyncio.timeout(PATIENCE_S):  # a second each would be longer
        verdicts = await store.settle(finished)
    assert [verdict.locked for verdict in verdicts] == [True] * 60 + [False] * 10
    monkeypatch.setattr(jobs_exchange, "HELD_WAIT_MS", int(1000 * PATIENCE_S))
    settling = asyncio.create_task(store.settle(finished))
    await waits_for(store, holder, settling)
    holder.rollback()
    assert all(verdict.accepted for verdict in await settling)


async def test_a_row_that_is_held_for_long_keeps_no_other_held_row_from_being_settled(
    store: SqlStore, holder: Any, fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_exchange, "HELD_WAIT_MS", 4000)  # in which the other row is let go, on a busy machine too
    for _ in range(4):
        await submit(store)
    claims = sorted(await take(store), key=lambda claim: claim.job.id)
    hold(holder, claims[0].job.id)
    dsn, options = split_url(fresh_postgres_url)
    with psycopg.connect(dsn, options=f"-c search_path={options['schema']}") as other:
        hold(other, claims[2].job.id)
        settling = asyncio.create_task(store.settle([Report(claim, Success(b"1")) for claim in claims]))
        await waits_for(store, holder, settling, "%ORDER BY j.id FOR NO KEY UPDATE%")
        other.rollback()
        async with asyncio.timeout(PATIENCE_S):
            verdicts = await settling
    assert [verdict.locked for verdict in verdicts] == [True, False, False, False]


async def test_while_rows_are_held_a_turn_does_not_wait_for_them_again_and_again(
    store: SqlStore, holder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(8):
        await submit(store)
    claims = await take(store)
    for claim in claims:
        hold(holder, claim.job.id)
    now = 1_000_000.0
    monkeypatch.setattr(jobs_exchange, "monotonic", lambda: now)
    sent = statements_of(store, monkeypatch)
    request = ClaimRequest(worker_id="w", limit=1)
    for claim in claims[:4]:
        ((verdict,), _) = await store.exchange([Report(claim, Success(b"1"))], request)
        assert verdict.locked
    assert sent.count("turn") == 1
    around = len(sent)
    holder.rollback()
    now += jobs_exchange.AROUND_S
    ((verdict,), _) = await store.exchange([Report(claims[5], Success(b"1"))], request)
    assert verdict.accepted
    assert sent[around:] == ["turn"]


async def test_a_turn_leaves_no_lock_timeout_behind(store: SqlStore, holder: Any) -> None:
    engine = store.engine
    assert isinstance(engine, PostgresEngine)
    claims = [await taken(store), await taken(store)]
    hold(holder, claims[1].job.id)
    for claim in claims:
        await store.exchange([Report(claim, Success(b"1"))], ClaimRequest(worker_id="w", limit=1))
        async with engine._acquired() as connection:
            assert await connection.fetchval("SHOW lock_timeout") == f"{LOCK_WAIT_S:.0f}s"


def statements_of(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that are sent from now on."""
    engine, sent = store.engine, list[str]()
    assert isinstance(engine, PostgresEngine)
    execute = engine.execute

    async def watched(connection: Any, statement: Statement, timeout_s: float | None = None) -> list[Row]:
        sent.append(statement.name)
        return await execute(connection, statement, timeout_s)

    monkeypatch.setattr(engine, "execute", watched)
    return sent


WAITS = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)) AND query LIKE $2)"


async def waits_for(store: SqlStore, holder: Any, waiter: asyncio.Task[Any], query: str = "%") -> None:
    """Until a statement like this waits for a row of this holder."""
    assert isinstance(store.engine, PostgresEngine)
    watcher = await store.engine.connect()
    async with asyncio.timeout(PATIENCE_S):
        while not await watcher.fetchval(WAITS, holder.info.backend_pid, query):
            assert not waiter.done()
            await asyncio.sleep(0.005)
    await watcher.close()


# --- two workers in their turns -------------------------------------------------------------------

PAUSE_IN_A_TURN = """
CREATE FUNCTION pause_in_a_turn() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({pid}, CASE NEW.state WHEN 'completed' THEN 1 ELSE 2 END);
    RETURN NEW;
END $$;
CREATE TRIGGER pause_in_a_turn BEFORE UPDATE ON inbox_jobs
FOR EACH ROW WHEN (NEW.worker_id = 'slow') EXECUTE FUNCTION pause_in_a_turn();
"""
SOMEBODY_WAITS = """
SELECT EXISTS (SELECT 1 FROM pg_locks
               WHERE locktype = 'advisory' AND classid = pg_backend_pid() AND objid = %s AND NOT granted)
"""


async def stops_at(holder: Any, step: int, turn: asyncio.Task[Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holder.execute(SOMEBODY_WAITS, [step]).fetchone()[0]:
            assert not turn.done()
            await asyncio.sleep(0.005)


async def test_a_turn_holds_no_job_that_another_worker_claimed_meanwhile(store: SqlStore, holder: Any) -> None:
    for _ in range(6):
        await submit(store)
    (slow,) = await store.claim(ClaimRequest(worker_id="slow", limit=1))
    holder.autocommit = True
    holder.execute(PAUSE_IN_A_TURN.format(pid=holder.info.backend_pid))
    for step in (1, 2):  # it settles, and it takes
        holder.execute("SELECT pg_advisory_lock(pg_backend_pid(), %s)", [step])
    turn = asyncio.create_task(store.exchange([Report(slow, Success(b"1"))], ClaimRequest(worker_id="slow", limit=1)))
    await stops_at(holder, 1, turn)
    claims = await take(store, limit=3)
    holder.execute("SELECT pg_advisory_unlock(pg_backend_pid(), 1)")
    await stops_at(holder, 2, turn)
    async with asyncio.timeout(PATIENCE_S):
        verdicts, _ = await store.exchange(
            [Report(claim, Success(b"1")) for claim in claims], ClaimRequest(worker_id="w", limit=1)
        )
    assert [verdict.accepted for verdict in verdicts] == [True] * 3
    holder.execute("SELECT pg_advisory_unlock(pg_backend_pid(), 2)")
    async with asyncio.timeout(PATIENCE_S):
        ((verdict,), (following,)) = await turn
    assert verdict.accepted
    assert following.job.id not in {claim.job.id for claim in claims}
