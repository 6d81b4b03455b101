"""What a trigger on `inbox_jobs` sees on SQLite: every move of a job is in the table of moves, and none is left out."""

from __future__ import annotations

from typing import Any, Final

import apsw

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.dependency import Dependency
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import INITIAL, MOVES, State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import FrozenClock
from tests.faults.stores import opened, sqlite_path

AUDIT: Final = """
CREATE TABLE audit (job_id TEXT, old TEXT, new TEXT, old_version INTEGER, new_version INTEGER);
CREATE TRIGGER audit_stored AFTER INSERT ON inbox_jobs
BEGIN INSERT INTO audit VALUES (new.id, NULL, new.state, NULL, new.claim_version); END;
CREATE TRIGGER audit_moved AFTER UPDATE OF state ON inbox_jobs WHEN old.state <> new.state
BEGIN INSERT INTO audit VALUES (new.id, old.state, new.state, old.claim_version, new.claim_version); END;
"""
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
TEMPORARY: Final = Failure(Category.TEMPORARY, "no luck")
PERMANENT: Final = Failure(Category.PERMANENT, "never")


async def test_every_move_is_in_the_table_and_none_is_left_out(sqlite_url: str) -> None:
    clock = FrozenClock()
    async with opened(sqlite_url, clock) as store:
        await store.migrate()
        with apsw.Connection(sqlite_path(sqlite_url)) as connection:
            connection.execute(AUDIT)
        await submit_all_kinds(store)
        await work(store, clock)
        await operate(store, clock)
        await outlive(store, clock)
        assert all(depth.count == 0 for depth in await store.depths())
    with apsw.Connection(sqlite_path(sqlite_url)) as connection:
        seen = connection.execute("SELECT DISTINCT old, new FROM audit").fetchall()
        unfenced = connection.execute(
            "SELECT DISTINCT old, new, new_version - old_version FROM audit "
            "WHERE new_version - old_version <> (new = 'running') "
            # What is taken from a living worker is fenced off first.
            "AND NOT (old = 'running' AND new IN ('cancelled', 'dead_letter') AND new_version = old_version + 1)"
        ).fetchall()
    stored = {State(str(new)) for old, new in seen if old is None}
    moves = {(State(str(old)), State(str(new))) for old, new in seen if old is not None}
    assert stored <= INITIAL
    assert moves <= MOVES.keys(), f"not in the table: {moves - MOVES.keys()}"
    assert MOVES.keys() - moves == {(State.RUNNING, State.RUNNING)}, "a stage is no state"
    assert not unfenced, "a claim, and nothing else, is a new version"


async def submit_all_kinds(store: SqlStore) -> None:
    keyed: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 2}
    await store.submit_many([Submission(type="good") for _ in range(30)])
    await store.submit_many([Submission(type="good", **keyed) for _ in range(9)])
    await store.submit_many([Submission(type="good", callback_url="https://receiver.example/x") for _ in range(9)])
    await store.submit(Submission(type="later", delay_us=5 * SECOND))
    for kind in ("good", "flaky", "given_back", "bad", "hopeless"):
        before = (await store.submit(Submission(type=kind))).job_id
        for more in ({}, keyed, {"delay_us": 3 * SECOND}, {"callback_url": "https://receiver.example/x"}):
            link = Submission(type=kind, depends_on=(before,), dependency=Dependency.CHAIN, **more)
            before = (await store.submit(link)).job_id
        alone = await store.submit(Submission(type=kind))
        await store.submit(Submission(type=kind, depends_on=(alone.job_id,), dependency=Dependency.AFTER))
        await store.submit_many([Submission(type=kind, max_attempts=2, **keyed) for _ in range(4)])


def outcome_of(claim: Claim) -> Outcome:
    job = claim.job
    match job.type:
        case "bad":
            return Failed(PERMANENT)
        case "hopeless":
            return Failed(TEMPORARY)
        case "flaky" if job.attempt_count == 1:
            return Failed(TEMPORARY)
        case "given_back" if job.release_count == 0:
            return Released()
    return Success(b"1")


async def work(store: SqlStore, clock: FrozenClock) -> None:
    """Turns of a worker until nothing is left, and a sweep between them."""
    claims: list[Claim] = []
    for _ in range(200):
        request = ClaimRequest(worker_id="w", limit=20, prefetch=10, prefetch_types=("good",), lease_ttl_us=MINUTE)
        _, claims = await store.exchange([Report(claim, outcome_of(claim)) for claim in claims], request)
        if not claims:
            clock.advance(seconds=10)
            await store.sweeps.urgent()
            if all(depth.count == 0 for depth in await store.depths()):
                return
    raise AssertionError("some jobs never end")


async def operate(store: SqlStore, clock: FrozenClock) -> None:
    """What operators do, and what becomes of jobs whose worker is lost."""
    waiting = await store.submit(Submission(type="good"))
    behind = await store.submit(Submission(type="good", depends_on=(waiting.job_id,)))
    later = await store.submit(Submission(type="good", delay_us=MINUTE))
    for submitted in (behind, waiting, later):
        await store.cancel(submitted.job_id)
    first, again, buried = [(await store.submit(Submission(type="bad"))).job_id for _ in range(3)]
    request = ClaimRequest(worker_id="w", limit=3, lease_ttl_us=MINUTE)
    claims = {claim.job.id: claim for claim in await store.claim(request)}
    await store.cancel(first, force=True)
    await store.settle([Report(claims[job_id], Failed(PERMANENT)) for job_id in (again, buried)])
    await store.retry(again)
    await store.dead_letter(buried)
    after = await store.submit(Submission(type="good", depends_on=(again,)))
    (claim,) = await store.claim(request)
    clock.advance(us=2 * MINUTE)  # Its worker is lost.
    await store.sweeps.urgent()
    await store.cancel(claim.job.id)
    assert (await store.get(after.job_id)).state is State.CANCELLED


async def outlive(store: SqlStore, clock: FrozenClock) -> None:
    """The lifetime of jobs is over, wherever they are."""
    failing = Submission(type="bad", lifetime_us=MINUTE, max_attempts=2)
    await store.submit_many([failing, failing])
    runs, retried = await store.claim(ClaimRequest(worker_id="w", limit=2, lease_ttl_us=MINUTE))
    await store.settle([Report(retried, Failed(TEMPORARY))])
    for said in ({}, {"delay_us": 50 * SECOND}, {"depends_on": (runs.job.id,)}):
        await store.submit(Submission(type="good", lifetime_us=MINUTE, **said))
    clock.advance(us=2 * MINUTE)
    assert await store.sweeps.end_lifetimes() >= 4
