"""A walk in bounded steps finds what a statement forgot: jobs in no line, runs without jobs, claims without leases."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Released, Success
from euterpe.model.job import Claim
from euterpe.model.retention import Chore
from euterpe.model.state import State
from euterpe.stores.sql.maintenance import sweeps
from euterpe.worker.sweeper import Sweeper
from tests.conformance.acts import DAY, HOUR, MINUTE, complete, job, release, state_of, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.walks.watched import Watched
from tests.worker_units.test_sweeper import Heard

SHAPES: dict[str, dict[str, Any]] = {"plain": {}, "keyed": {"concurrency_key": "k", "concurrency_limit": 9}}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_job_that_is_ready_and_in_no_line_is_adopted(
    line: Watched, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [submitted.job_id for submitted in await line.store.submit_many([job(**SHAPES[shape])] * 3)]
    ids.append(await submit(line.store, **SHAPES[shape]))
    await line.run("DELETE FROM euterpe_line")
    await line.run("DELETE FROM euterpe_key_line")
    await line.run("UPDATE euterpe_keys SET in_line = 0")
    assert await take(line.store) == []
    assert (await line.store.sweeps.recover()).adopted == 4
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert sorted(record.__dict__["job_id"] for record in told) == sorted(ids)
    assert [claim.job.id for claim in await take(line.store)] == ids
    assert (await line.store.sweeps.recover()).adopted == 0


async def test_adopted_jobs_are_counted(line: Watched) -> None:
    class Counting:
        count = 0

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def adopted(self, count: int = 1) -> None:
            self.count += count

    await submit(line.store)
    await line.run("DELETE FROM euterpe_line")
    telemetry: Any = Counting()
    await Sweeper(line.store.sweeps, Heard(), telemetry)._pass()
    assert telemetry.count == 1


async def test_what_is_in_a_line_is_not_adopted(line: Watched, clock: FrozenClock) -> None:
    store = line.store
    await store.submit_many([job()] * 5)
    await store.submit_many([job(priority=priority) for priority in (0, 3, 3, 1)])
    await store.submit_many([job(**SHAPES["keyed"])] * 3 + [job(concurrency_key="full", concurrency_limit=1)] * 3)
    given_back = await take(store, 4)
    for claim in given_back[1:3]:
        await release(store, claim)
    await submit(store, delay_us=HOUR)
    clock.advance(us=2 * HOUR)
    await store.sweeps.promote()
    before = await line.run("SELECT * FROM euterpe_line ORDER BY seq, jobs")
    assert (await store.sweeps.recover()).adopted == 0
    assert await line.run("SELECT * FROM euterpe_line ORDER BY seq, jobs") == before
    assert await line.wrong_places() == []


async def test_the_walk_takes_bounded_steps_and_begins_anew(line: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "PAGE", 2)
    for _ in range(5):
        await submit(line.store)
    await line.run("DELETE FROM euterpe_line")
    assert [await line.store.sweeps.adopt() for _ in range(4)] == [2, 2, 1, 0]


async def test_a_run_whose_jobs_are_gone_is_dropped(line: Watched) -> None:
    await line.store.submit_many([job()] * 3)
    stays = await submit(line.store, "other")
    await line.run(
        "UPDATE inbox_jobs SET state = 'cancelled', listed = 'cancelled', completed_at = 1 WHERE type = 'work'"
    )
    await line.store.sweeps.recover()
    assert await line.run("SELECT type FROM euterpe_line") == [("other",)]
    assert await state_of(line.store, stays) is State.SCHEDULED


async def test_a_key_whose_job_in_the_line_is_gone_gives_the_place_to_the_next(line: Watched) -> None:
    keyed: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
    first, second, third = [await submit(line.store, **keyed) for _ in range(3)]
    await line.run("DELETE FROM inbox_jobs WHERE id = ANY (CAST($1 AS uuid[]))", [first, second])
    await line.store.sweeps.recover()
    assert [claim.job.id for claim in await take(line.store)] == [third]
    assert await line.count("euterpe_key_line") == 0


async def test_a_claim_moves_on_with_its_leases_and_goes_with_its_jobs(line: Watched, clock: FrozenClock) -> None:
    store = line.store
    await store.submit_many([job()] * 3)
    first, second, third = await take(store)
    written = await line.run("SELECT ctid, xmin, expires_at FROM euterpe_running")
    clock.advance(us=MINUTE // 2)
    await store.heartbeat([first.lease, second.lease, third.lease])
    assert await line.run("SELECT ctid, xmin, expires_at FROM euterpe_running") == written
    clock.advance(us=MINUTE // 2 + 1)
    assert await store.sweeps.reclaim() == 0
    ((expires_at, seqs),) = await line.run("SELECT expires_at, seqs FROM euterpe_running")
    assert (expires_at, len(seqs)) == (clock() + MINUTE // 2 - 1, 3)
    await line.run(
        "UPDATE inbox_jobs SET state = 'completed', lease_expires_at = NULL WHERE id = CAST($1 AS uuid)", first.job.id
    )
    clock.advance(us=MINUTE)
    assert await store.sweeps.reclaim() == 2
    await store.sweeps.reclaim()
    assert await line.count("euterpe_running") == 0


@pytest.mark.parametrize("shape", SHAPES)
async def test_claims_whose_jobs_have_ended_go_with_the_turns_of_their_worker(line: Watched, shape: str) -> None:
    """What is running is read claim by claim; those of a busy worker must not stay until their leases end."""
    await line.store.submit_many([job(**SHAPES[shape])] * 20)
    claims: list[Claim] = []
    for _ in range(10):
        reports = [Report(claim, Success()) for claim in claims]
        _, claims = await line.store.exchange(reports, ClaimRequest(worker_id="w", limit=2))
        assert len(claims) == 2
    assert await line.count("euterpe_running") <= 2


async def test_a_job_that_is_given_back_and_claimed_in_one_turn_is_in_its_new_claim(line: Watched) -> None:
    await submit(line.store)
    (claim,) = await take(line.store)
    ((first,),) = await line.run("SELECT claim FROM euterpe_running")
    for _ in range(3):
        request = ClaimRequest(worker_id="w", limit=1)
        _, (claim,) = await line.store.exchange([Report(claim, Released())], request)
    assert await take(line.store) == []
    ((last, seqs),) = await line.run("SELECT claim, seqs FROM euterpe_running")
    assert (last > first, seqs) == (True, [claim.job.seq])


async def test_a_running_job_in_no_claim_is_taken_back_all_the_same(line: Watched, clock: FrozenClock) -> None:
    await submit(line.store)
    claim = await take_one(line.store)
    await line.run("DELETE FROM euterpe_running")
    clock.advance(us=HOUR)
    await line.store.sweeps.recover()
    assert (await line.store.sweeps.recover()).reclaimed == 1
    assert await state_of(line.store, claim.job.id) is State.RETRYING


async def test_completed_jobs_behind_many_that_wait_are_removed(line: Watched, clock: FrozenClock) -> None:
    store = line.store
    await store.submit_many([job("held", lifetime_us=30 * DAY)] * 45)
    done = [await submit(store, "done") for _ in range(5)]
    for claim in await take(store, types=("done",)):
        await complete(store, claim)
    clock.advance(us=10 * DAY)
    assert await store.sweeps.tidy(Chore.JOBS, 2) == 2, "the pages of one go reach them"
    assert await store.sweeps.tidy(Chore.JOBS, 2) == 2
    assert await store.sweeps.tidy(Chore.JOBS, 2) == 1
    assert await store.sweeps.tidy(Chore.JOBS, 2) == 0
    assert len(done) == 5
    assert await line.count("inbox_jobs") == 45
