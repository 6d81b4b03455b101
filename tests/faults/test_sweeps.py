"""Sweeps need no leader: many processes sweep at once, and each job is moved by one of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.store import SqlStore
from tests.faults import actors
from tests.faults.crew import Crew, together, until
from tests.faults.history import check
from tests.faults.recorder import rows, run
from tests.faults.stores import opened

EACH = 150
SWEEPERS = 8


async def test_eight_sweepers_promote_reclaim_and_bury_each_job_once(database: str, crew: Crew) -> None:
    async with opened(database) as store:
        await store.submit_many([_job("due", delay_us=1) for _ in range(EACH)])
        for kind in ("lost", "spent"):
            await store.submit_many([_job(kind, max_attempts=2 if kind == "lost" else 1) for _ in range(EACH)])
            await store.claim(ClaimRequest(worker_id="w", limit=EACH, types=(kind,), lease_ttl_us=1))
        await store.submit_many([_job("expired", lifetime_us=1) for _ in range(EACH)])
        parent = await store.submit(_job("expired", lifetime_us=1, priority=0))
        await store.submit_many([_job("child", depends_on=(parent.job_id,)) for _ in range(10)])

        async def all_is_over() -> bool:
            [(late,)] = rows(database, "SELECT max(CASE state WHEN 'delayed' THEN run_at ELSE 0 END) FROM inbox_jobs")
            return bool((await _now(store)) > late + 1000)

        await until(all_is_over)
        told = await together(crew.start_many(SWEEPERS, actors.sweeper_once, database))
        swept = [one for one, _ in told]
        # Jobs that were reclaimed may be promoted by a slower sweeper, so that sum has a range.
        assert EACH <= sum(len(one.promoted) for one in swept) <= 2 * EACH
        assert sum(one.reclaimed for one in swept) == 2 * EACH
        assert sum(one.lifetimes for one in swept) == EACH + 1
    history = check(database, crew)
    states = Counter((job.state, job.attempt_count) for job in history.jobs.values())
    assert states[(State.DEAD_LETTER, 1)] == EACH, "the spent ones"
    assert states[(State.DEAD_LETTER, 0)] == EACH + 11, "the expired ones, and who waited for one of them"
    assert states[(State.SCHEDULED, 0)] == EACH, "the due ones"
    assert states[(State.SCHEDULED, 1)] + states[(State.RETRYING, 1)] == EACH, "the lost ones"
    promotions = Counter(
        job_id
        for job_id, moves in history.moves.items()
        for move in moves
        if move.source in (State.DELAYED, State.RETRYING) and move.target is State.SCHEDULED
    )
    assert set(promotions.values()) == {1}


async def test_eight_sweepers_prune_each_ended_job_once_and_leave_its_tombstone(database: str, crew: Crew) -> None:
    async with opened(database) as store:
        await store.submit_many([_job("old") for _ in range(EACH)])
        claims = await store.claim(ClaimRequest(worker_id="w", limit=EACH))
        await store.settle([Report(claim, Success()) for claim in claims])
        kept = await store.submit(_job("kept"))
    _age_by_a_month(database)
    told = await together(crew.start_many(SWEEPERS, actors.sweeper_once, database))
    assert sum(pruned for _, pruned in told) == EACH
    assert rows(database, "SELECT CAST(id AS text) FROM inbox_jobs") == [(kept.job_id,)]
    assert rows(database, "SELECT count(*) FROM job_attempts") == [(0,)]
    assert rows(database, "SELECT count(*) FROM euterpe_tombstones") == [(EACH,)]


def _age_by_a_month(url: str) -> None:
    month_us = 30 * 86_400_000_000
    run(url, f"UPDATE inbox_jobs SET completed_at = completed_at - {month_us} WHERE completed_at IS NOT NULL")


async def _now(store: SqlStore) -> int:
    return await store.engine.read(_clock)


def _clock() -> Program[int]:
    answer = yield one("clock")
    return int(answer[0][0])


def _job(kind: str, **said: Any) -> Submission:
    return Submission(type=kind, retry=actors.AT_ONCE, callback_url="http://receiver.invalid/", **said)
