"""A database that refuses everything for a while: the worker lives on, and whatever succeeded is completed after it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from euterpe.model.errors import DataRejected
from euterpe.model.state import State
from euterpe.queue.queue import Queue
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.worker.context import Context
from tests.refused.refusing import Refusals
from tests.worker.floor import in_state, until
from tests.worker.inline import working

JOBS = 3
OUTAGES = [
    *(("postgres", code) for code in ("25006", "42P01", "53100", "53200", "55P03", "57014", "57P01", "XX000")),
    *(
        ("sqlite", code)
        for code in ("BusyError", "FullError", "IOError", "ReadOnlyError", "NoMemError", "CorruptError")
    ),
]


@pytest.fixture
def url(outage: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found: str = request.getfixturevalue("fresh_postgres_url") if outage[0] == "postgres" else ""
    return found or f"sqlite:///{tmp_path}/jobs.db"


@pytest.mark.parametrize("outage", OUTAGES, ids="-".join)
async def test_no_job_that_succeeded_ends_failed_and_its_news_is_written(
    url: str, outage: tuple[str, str], refusals: Refusals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    queue = Queue(url)
    begun, gate = asyncio.Semaphore(0), asyncio.Event()

    @queue.job("reports")
    async def reports(ctx: Context) -> str:
        await ctx.progress(10)
        begun.release()
        await gate.wait()
        await ctx.progress(50)
        return "done"

    @queue.job("silent")
    async def silent() -> str:
        begun.release()
        await gate.wait()
        return "done"

    async with working(queue, poll="100ms"):
        jobs = [await queue.submit(kind) for kind in ("reports", "silent") for _ in range(JOBS)]
        for _ in jobs:
            await begun.acquire()
        refusals.refuse_all(outage[1])
        gate.set()
        await until(lambda: refusals.fired > 10, "the worker tries again and again")
        refusals.stop()
        ended = [await in_state(queue, job, State.COMPLETED) for job in jobs]
    assert [(job.attempt_count, job.result) for job in ended] == [(1, b'"done"')] * 2 * JOBS
    assert [job.progress for job in ended[:JOBS]] == [50.0] * JOBS
    said = [record.getMessage() for record in caplog.records]
    begun_lines = sum("database unavailable: the worker" in line for line in said)
    # A try that was under way when another succeeded may begin it once more.
    assert 1 <= begun_lines <= 3, "an outage is logged when it begins, not at every retry"
    assert sum("database available again: the worker" in line for line in said) == begun_lines
    assert not [record for record in caplog.records if record.exc_info], "no traceback for an outage"


async def test_an_outcome_that_the_database_rejects_for_what_it_is_ends_its_job_alone(fresh_postgres_url: str) -> None:
    """A constraint that only one result breaks: to try again would never help."""
    queue = Queue(fresh_postgres_url)

    @queue.job("work")
    async def work(n: int) -> str:
        return "bad" if n == 0 else "good"

    async with queue:
        connection = await PostgresEngine(fresh_postgres_url).connect()
        await connection.execute(
            "ALTER TABLE inbox_jobs ADD CONSTRAINT no_bad CHECK (result IS NULL OR result <> '\"bad\"'::bytea)"
        )
        await connection.close()
        jobs = [await queue.submit("work", {"n": n}) for n in range(5)]
        async with working(queue):
            ended = [await in_state(queue, job, State.COMPLETED) for job in jobs[1:]]
            failed = await in_state(queue, jobs[0], State.FAILED)
    assert [job.result for job in ended] == [b'"good"'] * 4
    assert failed.error_document is not None
    assert failed.error_document["code"] == "unwritable_outcome"
    assert "CheckViolation of no_bad" in failed.error_document["message"]


async def test_a_submit_that_the_database_refuses_spoils_no_other_of_its_commit(fresh_postgres_url: str) -> None:
    queue = Queue(fresh_postgres_url)
    async with queue:
        connection = await PostgresEngine(fresh_postgres_url).connect()
        await connection.execute("ALTER TABLE inbox_jobs ADD CONSTRAINT no_bad CHECK (type <> 'bad')")
        await connection.close()
        kinds = ["good" if n % 5 else "bad" for n in range(20)]
        answers = await asyncio.gather(*(queue.submit(kind) for kind in kinds), return_exceptions=True)
        stored = (await queue.search(limit=100)).jobs
    refused = [kind for kind, answer in zip(kinds, answers, strict=True) if isinstance(answer, DataRejected)]
    assert refused == ["bad"] * 4
    assert sorted(job.type for job in stored) == ["good"] * 16
