"""Unique keys under a sweep that comes at the worst moment, and after an answer that was lost."""

from __future__ import annotations

import asyncio

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.errors import CommitUnknown
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.submitting.submit import submit_again
from euterpe.stores.sql.submitting.unique import forget_unique
from tests.faults.crew import until
from tests.faults.proxy import Cut, proxied
from tests.faults.recorder import rows
from tests.faults.stores import opened
from tests.patience import PATIENCE_S

UNIQUE = Submission(type="t", unique_key="k")
GATE = """
ALTER TABLE euterpe_unique_jobs RENAME TO real_unique_jobs;
CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF position('LIMIT' IN current_query()) > 0 THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
    RETURN true;
END $$;
CREATE VIEW euterpe_unique_jobs AS SELECT * FROM real_unique_jobs WHERE gate();
SELECT pg_advisory_lock(4711);
"""
"""The sweep's statement stops at the first key that it looks at: its snapshot is taken, the key is not locked yet."""
WAITING_AT_THE_GATE = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted"


async def test_a_key_that_is_taken_anew_during_a_sweep_is_not_forgotten(postgres_database: str) -> None:
    async with opened(postgres_database) as store:
        ended = await store.submit(UNIQUE)
        await store.cancel(ended.job_id)
        connection = await PostgresEngine(postgres_database).connect()
        await connection.execute(GATE)
        sweep = asyncio.create_task(store.engine.write(lambda: forget_unique(10)))
        await until(lambda: connection.fetch(WAITING_AT_THE_GATE))
        fresh = await store.submit(UNIQUE)
        await connection.close()
        assert await sweep == 0
        assert (await store.submit(UNIQUE)).job_id == fresh.job_id, "a second job waits for one key"


async def test_the_key_of_a_job_that_is_retried_during_a_sweep_is_not_forgotten(postgres_database: str) -> None:
    async with opened(postgres_database) as store:
        await store.submit(UNIQUE)
        (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=1))
        await store.settle([Report(claim, Failed(Failure(Category.PERMANENT, "no")))])
        connection = await PostgresEngine(postgres_database).connect()
        await connection.execute(GATE)
        sweep = asyncio.create_task(store.engine.write(lambda: forget_unique(10)))
        await until(lambda: connection.fetch(WAITING_AT_THE_GATE))
        await store.retry(claim.job.id)
        await connection.close()
        assert await sweep == 0
        assert (await store.submit(UNIQUE)).job_id == claim.job.id, "a second job waits for one key"


async def test_a_transaction_that_holds_a_key_holds_up_no_settle(postgres_database: str) -> None:
    """Somebody submitted in a transaction that stays open: whether that job will be there, nobody knows yet."""
    async with opened(postgres_database) as store:
        older, neighbour = await store.submit(UNIQUE), await store.submit(Submission(type="t"))
        claims = await store.claim(ClaimRequest(worker_id="w", limit=2))
        connection = await PostgresEngine(postgres_database).connect()
        async with asyncio.timeout(PATIENCE_S):
            transaction = connection.transaction()
            await transaction.start()
            await store.submit_unit_on(Unit(drafts_of([UNIQUE])), connection)
            await store.settle([Report(claim, Failed(Failure(Category.TEMPORARY, "no"))) for claim in claims])
        assert [(await store.get(i.job_id)).state for i in (older, neighbour)] == ["retrying", "retrying"]
        await transaction.rollback()
        assert (await store.submit(UNIQUE)).job_id == older.job_id, "it has kept its key"
        await connection.close()


async def test_a_batch_with_a_kept_job_is_answered_after_its_answer_was_lost(postgres_database: str) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        kept = await store.submit(UNIQUE)
        trap = proxy.cut("COMMIT", Cut.AFTER)
        found, new = await store.submit_many([UNIQUE, Submission(type="t")])
        assert trap.sprung.is_set()
        assert (found.job_id, found.replayed, new.replayed) == (kept.job_id, True, False)
    assert rows(postgres_database, "SELECT count(*) FROM inbox_jobs") == [(2,)]


async def test_a_kept_job_that_nobody_knows_any_more_is_not_made_up(database: str) -> None:
    async with opened(database) as store:
        kept = await store.submit(UNIQUE)
        unit = Unit(drafts_of([UNIQUE, Submission(type="t")]))
        await store.submit_unit(unit)
        await store.cancel(kept.job_id)
        await store.sweeps.expire_keys()
        (answer,) = await store.engine.write(lambda: submit_again([unit]))
        assert isinstance(answer, CommitUnknown)
    assert rows(database, "SELECT count(*) FROM inbox_jobs") == [(2,)]
