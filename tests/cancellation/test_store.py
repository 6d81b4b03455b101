"""Every operation of a store is cut off at each of its suspension points in turn, and others follow on the same
connections: what they were told is stored is stored, and nothing of what was cut off is half there."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.cancellation.cutting import When, cut_off
from tests.cancellation.operations import OPERATIONS, Operation
from tests.faults.conftest import prepared
from tests.faults.crew import until
from tests.faults.history import check
from tests.faults.recorder import rows
from tests.faults.stores import SQLITE, opened
from tests.line.at_rest import BROKEN
from tests.patience import PATIENCE_S

CONNECTIONS = 2
MOST_POINTS = 100
HALF_DONE = """
    SELECT 'a key without its job', k.key FROM idempotency_keys k
        WHERE k.response IS NULL OR NOT EXISTS (SELECT 1 FROM inbox_jobs j WHERE j.id = k.job_id)
    UNION ALL
    SELECT 'a dependent that waits for nothing', CAST(j.id AS text) FROM inbox_jobs j
        WHERE j.state = 'pending' AND NOT EXISTS (SELECT 1 FROM job_dependencies d WHERE d.job_id = j.id)
    UNION ALL
    SELECT 'an edge of no job', CAST(d.job_id AS text) FROM job_dependencies d
        WHERE NOT EXISTS (SELECT 1 FROM inbox_jobs j WHERE j.id = d.job_id)
"""


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return await prepared(request.getfixturevalue("sqlite_url"))
    return f"{request.getfixturevalue('recorded_postgres_url')}&pool_size={CONNECTIONS}"


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())
async def test_an_operation_that_is_cut_off_takes_nothing_else_along(
    url: str, operation: Operation, when: When
) -> None:
    async with opened(url) as store:
        acknowledged: list[str] = []
        for at in range(MOST_POINTS):
            was_cut = await cut_off(await operation(store, at), at, when)
            async with asyncio.timeout(PATIENCE_S):
                acknowledged += await _traffic(store, at)
            if not was_cut:
                break
        else:
            pytest.fail(f"it has more than {MOST_POINTS} suspension points")
        assert at > 0, "it never waited for anything"
        await _nothing_is_open(store, url)
    stored = {job_id for (job_id,) in rows(url, "SELECT CAST(id AS text) FROM inbox_jobs")}
    lost = [job_id for job_id in acknowledged if job_id not in stored]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged jobs are lost"
    assert rows(url, HALF_DONE) == []
    assert url.startswith(SQLITE) or rows(url, BROKEN) == []
    check(url)


async def test_a_key_whose_submit_was_cut_off_can_be_used(url: str) -> None:
    submission = Submission(type="t", idempotency_key="k")
    async with opened(url) as store:
        for at in itertools.count():
            was_cut = await cut_off(store.submit(submission), at, When.WAITING)
            submit_results = [await store.submit(submission) for _ in range(2)]
            assert len({submitted.job_id for submitted in submit_results}) == 1
            if not was_cut:
                break
    assert rows(url, "SELECT count(*) FROM inbox_jobs") == [(1,)]


async def test_a_job_is_never_given_twice_under_one_version(url: str) -> None:
    """A cut-off write of another caller was all it took."""
    given: list[tuple[str, int]] = []
    async with opened(url) as store, opened(url) as other:
        for at in itertools.count():
            await store.submit(Submission(type="t", queue="q"))
            was_cut = await cut_off(store.submit(Submission(type="t", idempotency_key=f"k{at}")), at, When.WAITING)
            for claims in await asyncio.gather(_claim_all(store), _claim_all(store)):
                given += claims
            await cut_off(store.submit(Submission(type="t", idempotency_key=f"l{at}")), 0, When.WAITING)
            given += await _claim_all(other)
            if not was_cut:
                break
    assert len(set(given)) == len(given) == at + 1
    check(url)


async def _claim_all(store: SqlStore) -> list[tuple[str, int]]:
    claims = await store.claim(ClaimRequest(worker_id="w", limit=5, queues=("q",)))
    return [(claim.job.id, claim.lease.claim_version) for claim in claims]


async def _traffic(store: SqlStore, n: int) -> list[str]:
    """On every connection something that commits by itself, and then something with a transaction around it; one of
    those that fail."""
    submit_results = await asyncio.gather(
        store.submit(Submission(type="after")),
        store.submit_many([Submission(type="after"), Submission(type="later")]),
        store.submit(Submission(type="after", idempotency_key=f"after-{n}")),
    )
    await asyncio.gather(
        store.submit(Submission(type="after", depends_on=("00000000-0000-4000-8000-000000000000",))),
        store.cancel("00000000-0000-4000-8000-000000000000"),
        return_exceptions=True,
    )
    one, many, keyed = submit_results
    return [one.job_id, *(submitted.job_id for submitted in many), keyed.job_id]


async def _nothing_is_open(store: SqlStore, url: str) -> None:
    """No transaction, and no connection that nobody can use any more."""
    if url.startswith(SQLITE):
        return
    engine = store.engine
    assert isinstance(engine, PostgresEngine)
    async with asyncio.timeout(PATIENCE_S):
        async with _all_connections(engine) as pids:
            await until(lambda: _all_idle(url, pids), within_s=30)


@asynccontextmanager
async def _all_connections(engine: PostgresEngine) -> AsyncIterator[list[int]]:
    connections = engine._connections
    assert connections is not None
    held = [await connections.acquire() for _ in range(CONNECTIONS)]
    yield [connection.get_server_pid() for connection in held]
    for connection in held:
        connections.release(connection)


async def _all_idle(url: str, pids: list[int]) -> bool:
    states = dict(rows(url, "SELECT pid, state FROM pg_stat_activity WHERE application_name = 'euterpe'"))
    return all(states.get(pid) == "idle" for pid in pids)
