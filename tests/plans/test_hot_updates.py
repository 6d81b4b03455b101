"""On Postgres claims, plain settles and heartbeats are HOT updates: they write no index, whatever shape the jobs have.

Each test has a database of its own. Postgres clears a page as it updates it, but only of versions that ended before the
oldest transaction with an id, be that one in another database: any test that runs beside can fill our pages. VACUUM
looks at this database alone, so it stands in for the clearing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.plans.test_postgres_plans import ask, watched

JOBS: Final = 200
PAYLOAD: Final = b'"%s"' % (b"x" * 300)
RESULT: Final = b'"%s"' % (b"y" * 100)
AT_ONCE: Final = RetryPolicy(Backoff(Strategy.CONSTANT, initial_us=0, jitter=0.0))


def _web(number: int) -> Submission:
    tags = {"order": str(number)}
    return Submission(type="t", payload=PAYLOAD, idempotency_key=f"k{number}", tags=tags, correlation_id=f"c{number}")


SHAPES: Final[dict[str, Callable[[int], Submission]]] = {
    "plain": lambda _: Submission(type="t", payload=PAYLOAD),
    "web": _web,
    "mixed": lambda number: Submission(type="t", payload=PAYLOAD, priority=number % 3),
    "delayed": lambda _: Submission(type="t", payload=PAYLOAD, delay_us=1),
    "one attempt": lambda _: Submission(type="t", payload=PAYLOAD, max_attempts=1),
    "keyed": lambda number: Submission(
        type="t", payload=PAYLOAD, concurrency_key=f"tenant {number % 7}", concurrency_limit=JOBS
    ),
}


@pytest.fixture
def own_database(postgres_url: str) -> Iterator[str]:
    """A database apart, whose tables VACUUM may clear whatever the other tests have open."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield f"{urlunsplit(urlsplit(postgres_url)._replace(path=f'/{name}'))}?schema=public"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("bulk", [True, False], ids=["in bulk", "one by one"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_drain_writes_no_index_of_the_jobs(own_database: str, shape: str, bulk: bool) -> None:
    submissions = [SHAPES[shape](number) for number in range(JOBS)]
    async with watched(own_database) as (engine, store):
        if bulk:
            await store.submit_many(submissions)
        else:
            for submission in submissions:
                await store.submit(submission)
        await store.sweeps.promote()
        await _clear(engine)
        updates, hot = await _drain(engine, store)
        assert (updates, hot) == (2 * JOBS, 2 * JOBS), (
            "an index mentions what a claim or a settle changes, or a page is full"
        )


async def test_the_second_attempt_of_a_job_writes_no_index(own_database: str) -> None:
    """The retry itself does: the job is in the list of what is retried, and leaves it."""
    async with watched(own_database) as (engine, store):
        await store.submit_many([Submission(type="t", payload=PAYLOAD, retry=AT_ONCE)] * JOBS)
        claims = await store.claim(ClaimRequest(worker_id="w", limit=JOBS))
        await store.settle([Report(claim, Failed(Failure(Category.TEMPORARY, "again"))) for claim in claims])
        assert len(await store.sweeps.promote()) == JOBS
        await _clear(engine)
        assert await _drain(engine, store) == (2 * JOBS, 2 * JOBS)


async def test_heartbeats_are_hot_updates(own_database: str) -> None:
    async with watched(own_database) as (engine, store):
        await store.submit_many([Submission(type="t", payload=PAYLOAD)] * JOBS)
        claims = await store.claim(ClaimRequest(worker_id="w", limit=JOBS))
        before = await _updates(engine)
        for _ in range(5):
            await _clear(engine)
            await store.heartbeat([claim.lease for claim in claims])
        updates, hot = await _since(engine, before)
        assert (updates, hot) == (5 * JOBS, 5 * JOBS), "an index mentions what heartbeats change, or a page is full"


async def _drain(engine: PostgresEngine, store: SqlStore) -> tuple[int, int]:
    """Claims and ends all that waits, in turns; how many updates that took, and how many of them were HOT."""
    before = await _updates(engine)
    done: Sequence[Claim] = []
    total = 0
    while True:
        reports = [Report(claim, Success(RESULT)) for claim in done]
        _, done = await store.exchange(reports, ClaimRequest(worker_id="w", limit=50))
        total += len(done)
        if not done:
            break
    assert total == JOBS
    return await _since(engine, before)


async def _clear(engine: PostgresEngine) -> None:
    connection = await engine.connect()
    try:
        await connection.execute("VACUUM inbox_jobs")
    finally:
        await connection.close()


async def _since(engine: PostgresEngine, before: tuple[int, int]) -> tuple[int, int]:
    updates, hot = await _updates(engine)
    return updates - before[0], hot - before[1]


async def _updates(engine: PostgresEngine) -> tuple[int, int]:
    [(updates, hot)] = await ask(
        engine,
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
        f" WHERE relname = 'inbox_jobs' AND schemaname = '{engine.schema}'",
    )
    return updates, hot
