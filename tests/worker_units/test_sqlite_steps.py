"""SQLite claims and completes in steps that belong together, and takes no more of them than it needs."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import apsw
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Clock
from euterpe.stores.sql.jobs.settle import Follows, complete
from euterpe.stores.sql.program import Row, Statement
from euterpe.stores.sql.sqlite import engine as sqlite_engine
from euterpe.stores.sql.sqlite.engine import ApswSession, SqliteEngine, connect
from euterpe.stores.sql.store import SqlStore

SECOND = 1_000_000
A, B, C = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    """Its clock goes on by a second whenever somebody looks."""
    ticks = itertools.count(1_700_000_000 * SECOND, SECOND)
    engine = SqliteEngine(str(tmp_path / "jobs.db"), clock=lambda: next(ticks))
    await engine.migrate()
    await engine.open()
    yield SqlStore(engine)
    await engine.close()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that run."""
    names: list[str] = []
    execute = ApswSession.execute

    def noted(session: ApswSession, statement: Statement, now: Clock) -> list[Row]:
        names.append(statement.name)
        return execute(session, statement, now)

    monkeypatch.setattr(ApswSession, "execute", noted)
    return names


@pytest.mark.parametrize("prefetch", [0, 2])
async def test_a_claim_has_the_times_that_are_stored(store: SqlStore, prefetch: int) -> None:
    """Though it is read before it is written, and time goes on."""
    for _ in range(2):
        await store.submit(Submission(type="t"))
    request = ClaimRequest(worker_id="w", limit=2, types=("t",), prefetch=prefetch, prefetch_types=("t",))
    claims = await store.claim(request)
    assert len(claims) == 2
    for claim in claims:
        assert claim.job == await store.get(claim.job.id)
        assert claim.lease.expires_at == claim.job.lease_expires_at


async def test_an_exchange_of_plain_jobs_is_four_steps(store: SqlStore, steps: list[str]) -> None:
    for _ in range(6):
        await store.submit(Submission(type="t"))
    claims = await store.claim(ClaimRequest(worker_id="w", limit=3))
    steps.clear()
    verdicts, more = await store.exchange(
        [Report(claim, Success(b"1")) for claim in claims], ClaimRequest(worker_id="w", limit=3)
    )
    assert [verdict.accepted for verdict in verdicts] == [True] * 3
    assert len(more) == 3
    assert steps == ["complete_uniform", "changes", "pick", "take"]


async def test_no_statement_of_an_exchange_is_planned_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite asks its authorizer whenever it plans a statement."""
    connections: list[apsw.Connection] = []

    def noted(path: str, wait: Callable[[int], bool]) -> apsw.Connection:
        connections.append(connect(path, wait))
        return connections[-1]

    monkeypatch.setattr(sqlite_engine, "connect", noted)
    engine = SqliteEngine(str(tmp_path / "jobs.db"))
    await engine.migrate()
    connections.clear()
    await engine.open()
    store, planned = SqlStore(engine), list[object]()

    def authorized(*what: object) -> int:
        planned.append(what)
        return apsw.SQLITE_OK

    (connection,) = connections
    connection.authorizer = authorized
    claims: list[Claim] = []
    for limit in range(1, 4):
        await store.submit(Submission(type="t"))
        planned.clear()
        await store.submit(Submission(type="t"))
        request = ClaimRequest(worker_id="w", limit=limit, types=("t",), prefetch=limit, prefetch_types=("t",))
        _, claims = await store.exchange([Report(claim, Success(b"1")) for claim in claims], request)
    await engine.close()
    assert len(claims) == 2
    assert planned == []


def test_jobs_that_end_alike_are_ended_by_two_lists() -> None:
    alike = complete((7, 5), (B, A), (1, 1), (None, None), Follows.NOTHING)
    assert alike.name == "complete_uniform"
    unlike = complete((5, 6, 7), (A, B, C), (1, 1, 2), (None, None, None), Follows.NOTHING)
    assert unlike.name == "complete"


async def test_jobs_far_from_each_other_are_ended_too(store: SqlStore) -> None:
    for _ in range(20):
        await store.submit(Submission(type="t"))
    claims = await store.claim(ClaimRequest(worker_id="w", limit=20))
    ended = (claims[0], claims[19])
    verdicts, _ = await store.exchange([Report(claim, Success(b"1")) for claim in ended], None)
    assert [verdict.accepted for verdict in verdicts] == [True, True]
    states = [(await store.get(claim.job.id)).state for claim in claims]
    assert states == ["completed", *["running"] * 18, "completed"]
