"""A million jobs that nobody takes cost the jobs beside them nothing on SQLite.

Its virtual machine takes as many steps as with a thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import apsw
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Released, Success
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Clock
from euterpe.stores.sql.program import Row, Statement
from euterpe.stores.sql.sqlite.engine import ApswSession
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import FrozenClock
from tests.faults.stores import opened, sqlite_path

FEW: Final = 1_000
MANY: Final = 1_000_000
HOUR_US: Final = 3_600_000_000
GRAIN: Final = 20
"""Steps of the virtual machine between two counts."""
ALLOWED: Final = 1.1
SLACK: Final = 400
"""Steps of a statement that a deeper tree, or a page more of a walk, may take."""

BACKLOGS: Final[dict[str, Submission]] = {
    "a full key": Submission(type="live", concurrency_key="full", concurrency_limit=1),
    "a key with an unknown type": Submission(type="unknown", concurrency_key="shared", concurrency_limit=5),
    "a paused type": Submission(type="paused", priority=0),
    "an unknown type": Submission(type="unknown", priority=0),
    "a delayed hour": Submission(type="live", delay_us=HOUR_US),
}


@pytest.mark.parametrize("kind", BACKLOGS)
async def test_a_backlog_costs_the_jobs_beside_it_nothing(
    sqlite_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = count_steps(monkeypatch)
    clock = FrozenClock()
    async with opened(sqlite_url, clock) as store:
        await store.migrate()
        await store.submit(BACKLOGS[kind])
        await store.pause("type", "paused")
        if kind == "a full key":
            await _claim(store, 1)  # It runs from now on, and its key is full.
            await store.submit(BACKLOGS[kind])
        multiply(sqlite_path(sqlite_url), FEW)
        await live(store, clock)
        with counted(steps) as few:
            await live(store, clock)
        multiply(sqlite_path(sqlite_url), MANY)
        with counted(steps) as many:
            await live(store, clock)
        assert sum(depth.count for depth in await store.depths()) > MANY, "all of them wait, before and behind"
    grown = {n: (few[n], many[n]) for n in many if many[n] > ALLOWED * few[n] + SLACK}
    assert not grown, f"steps beside {FEW} and beside {MANY} jobs: {grown}"
    assert {"pick", "take", "admit", "complete_uniform", "settle", "promote_due"} <= many.keys()


def multiply(path: str, count: int) -> None:
    """Copies of the youngest job. One statement makes them all."""
    connection = apsw.Connection(path)
    connection.execute("PRAGMA synchronous = OFF")
    try:
        names = [row[1] for row in connection.execute("PRAGMA table_info(inbox_jobs)") if row[1] not in ("seq", "id")]
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
            f"INSERT INTO inbox_jobs (id, {', '.join(names)}) "  # columns of our own table
            f"SELECT printf('%08x-0000-4000-8000-%012x', :count, i), {', '.join(f'j.{name}' for name in names)} "
            "FROM n CROSS JOIN (SELECT * FROM inbox_jobs WHERE claim_version = 0 AND completed_at IS NULL "
            "ORDER BY seq LIMIT 1) AS j",
            {"count": count},
        )
    finally:
        connection.close()


def count_steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Steps of the virtual machine by statement, from now on."""
    steps: Counter[str] = Counter()
    execute = ApswSession.execute

    def watched(session: ApswSession, statement: Statement, now: Clock) -> list[Row]:
        def step() -> bool:
            steps[statement.name] += GRAIN
            return False

        session._connection.set_progress_handler(step, GRAIN)
        try:
            return execute(session, statement, now)
        finally:
            session._connection.set_progress_handler(None)

    monkeypatch.setattr(ApswSession, "execute", watched)
    return steps


@contextmanager
def counted(steps: Counter[str]) -> Iterator[dict[str, int]]:
    steps.clear()
    found: dict[str, int] = {}
    yield found
    found.update(steps)


async def _claim(store: SqlStore, limit: int = 20, **asked: Any) -> list[Claim]:
    request = ClaimRequest(worker_id="w", limit=limit, types=("live", "other"), lease_ttl_us=HOUR_US, **asked)
    return await store.claim(request)


async def live(store: SqlStore, clock: FrozenClock) -> None:
    """Submit, claim, settle, give back, retry, cancel and sweep jobs of another type, with and without a key."""
    plain = Submission(type="other", priority=4)
    keyed = Submission(type="other", priority=4, concurrency_key="own", concurrency_limit=2)
    shared = Submission(type="other", priority=4, concurrency_key="shared", concurrency_limit=5)
    await store.submit_many([plain] * 20)
    await store.submit_many([keyed, keyed, keyed, shared])
    await store.submit(plain)
    cancelled = await store.submit(plain)
    await store.cancel(cancelled.job_id)
    claims = await _claim(store, 24)
    assert len(claims) == 24, "all but the third of its key"
    lost = Failure(Category.TEMPORARY, "no luck")
    await store.settle([Report(claims[0], Released()), Report(claims[1], Failed(lost))])
    clock.advance(seconds=2)
    await store.sweeps.promote()
    request = ClaimRequest(worker_id="w", limit=20, prefetch=20, prefetch_types=("other",), types=("live", "other"))
    _, more = await store.exchange([Report(claim, Success(b"1")) for claim in claims[2:]], request)
    while more:
        _, more = await store.exchange([Report(claim, Success(b"1")) for claim in more], request)
    await store.sweeps.recover()
