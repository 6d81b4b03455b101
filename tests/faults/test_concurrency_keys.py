"""A concurrency key's limit holds over all processes, and no job of it is left behind."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.state import State
from euterpe.model.submitting.submission import LOCAL_REQUESTER, Submission
from euterpe.stores.sql.rows import limit_key
from tests.faults import actors
from tests.faults.crew import Crew, together
from tests.faults.history import check
from tests.faults.recorder import run
from tests.faults.stores import opened
from tests.line.acts import held_until_asked_again

JOBS = 80
LIMIT = 3


async def test_eight_processes_never_hold_more_jobs_of_a_key_than_its_limit(database: str, crew: Crew) -> None:
    async with opened(database) as store:
        await store.submit_many(
            [Submission(type="t", concurrency_key="tenant", concurrency_limit=LIMIT) for _ in range(JOBS)]
        )
    told = await together(crew.start_many(8, actors.key_worker, database))
    held = [interval for intervals in told for interval in intervals]
    assert len(held) == JOBS
    assert _most_at_once(held) <= LIMIT
    assert sum(1 for intervals in told if intervals) > 1, "one process did it all: this run proved nothing"
    history = check(database, crew)
    assert {job.state for job in history.jobs.values()} == {State.COMPLETED}
    assert {job.attempt_count for job in history.jobs.values()} == {1}, "a parked claim cost an attempt"


def _most_at_once(intervals: list[tuple[float, float]]) -> int:
    """Intervals lie inside the true ones (claim answered .. settle asked), so a hit is never a false alarm."""
    edges = sorted([(since, 1) for since, _ in intervals] + [(until, -1) for _, until in intervals])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


async def test_a_key_at_its_limit_does_not_hide_the_jobs_behind_it(database: str) -> None:
    async with opened(database) as store:
        await store.submit_many(
            [Submission(type="t", concurrency_key="tenant", concurrency_limit=1, priority=0) for _ in range(300)]
        )
        free = await store.submit_many([Submission(type="t") for _ in range(5)])
        claims = await store.claim(ClaimRequest(worker_id="w", limit=6))
        assert [claim.job.concurrency_key for claim in claims] == ["tenant", *[None] * 5]
        assert [claim.job.id for claim in claims[1:]] == [submitted.job_id for submitted in free]
        assert await store.claim(ClaimRequest(worker_id="w", limit=6)) == []
        await store.settle([Report(claims[0], Success())])
        assert len(await store.claim(ClaimRequest(worker_id="w", limit=6))) == 1, "nobody took the free place"


async def test_parked_jobs_of_a_key_go_on_even_if_nobody_of_it_ends_any_more(database: str) -> None:
    async with opened(database) as store:
        keyed = {"concurrency_key": "tenant", "concurrency_limit": 2}
        await store.submit_many([Submission(type="t", **keyed) for _ in range(10)])  # type: ignore[arg-type]
        first = await store.claim(ClaimRequest(worker_id="w", limit=10))
        assert len(first) == 2
        run(database, "DELETE FROM inbox_jobs WHERE state = 'running'")
        assert await store.sweeps.unpark_idle() > 0
        again = await store.claim(ClaimRequest(worker_id="w", limit=10))
        assert len(again) == 2, "as many as the limit allows, not all eight"


@pytest.mark.parametrize("told", [{}, {"callback_url": "https://example.com/"}], ids=["plain", "told"])
async def test_a_turn_that_meets_only_locked_keys_asks_again(
    postgres_database: str, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the lock of a key is done in a moment. "There is nothing" would send the worker to sleep."""
    async with opened(postgres_database) as store:
        await store.submit(keyed("a", **told))
        ended = await store.claim(ClaimRequest(worker_id="w", limit=1))
        waiting = await store.submit(keyed("b"))
        lock = ("SELECT 1 FROM euterpe_keys WHERE name = $1 FOR UPDATE", limit_key(LOCAL_REQUESTER, "b"))
        async with held_until_asked_again(postgres_database, monkeypatch, *lock):
            _, claims = await store.exchange([Report(ended[0], Success(b"1"))], ClaimRequest(worker_id="w", limit=1))
        assert [claim.job.id for claim in claims] == [waiting.job_id]


def keyed(key: str, **said: Any) -> Submission:
    return Submission(type="t", concurrency_key=key, concurrency_limit=1, **said)
