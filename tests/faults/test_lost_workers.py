"""A worker that dies loses its jobs to others in time; one that was only frozen can write nothing when it wakes."""

from __future__ import annotations

import time

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.events.outbox import Delivery
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore
from tests.faults import actors
from tests.faults.crew import Crew, until
from tests.faults.history import check
from tests.faults.recorder import rows
from tests.faults.stores import opened
from tests.patience import in_time

LEASE_S = 0.6
SWEEP_S = 0.1
JOBS = 20


async def test_the_jobs_of_a_killed_worker_run_again_within_lease_and_sweep_and_a_second(
    database: str, crew: Crew
) -> None:
    async with opened(database) as store:
        began = time.monotonic()
        await _submit(store, JOBS)
        write_s = time.monotonic() - began
        victim = crew.start(actors.holder, database, JOBS, int(LEASE_S * 1e6))
        lost = await victim.report()
        assert len(lost) == JOBS
        sweeper = crew.start(actors.sweeper, database, SWEEP_S)
        await sweeper.report()
        victim.kill()
        killed_at = time.monotonic()
        again = 0

        async def all_claimed_again() -> bool:
            nonlocal again
            again += len(await store.claim(ClaimRequest(worker_id="heir:1", limit=JOBS)))
            return again == JOBS

        await until(all_claimed_again)
        took_s = time.monotonic() - killed_at
        print(f"recovered {JOBS} jobs {took_s:.2f} s after the SIGKILL of their worker (lease {LEASE_S} s)")
    history = check(database, crew)
    assert {job.claim_version for job in history.jobs.values()} == {2}
    assert {job.attempt_count for job in history.jobs.values()} == {2}, "the attempt that died was charged"
    # The second is for the machine, and on one that takes half a second for a single write it is not enough.
    in_time(took_s, LEASE_S + SWEEP_S + 1.0 + 10 * write_s)


async def test_a_worker_that_was_frozen_past_its_lease_writes_nothing_when_it_wakes(database: str, crew: Crew) -> None:
    async with opened(database) as store:
        await _submit(store, 3)
        frozen = crew.start(actors.holder, database, 3, int(LEASE_S * 1e6))
        await frozen.report()
        # Between two writes: whoever is frozen inside one is the next test's concern.
        frozen.order("fall quiet")
        assert await frozen.report() == "quiet"
        frozen.freeze()
        heir = await _taken_over(store, 3)
        before = _everything(database)
        frozen.order("settle")
        frozen.thaw()
        answers = await frozen.report()
        assert answers == {write: [False] * 3 for write in ("heartbeat", "advance", "spawn", "settle")}
        assert _everything(database) == before, "a refused write left something behind"
        beats = await store.heartbeat([claim.lease for claim in heir])
        assert all(beat.alive for beat in beats), "the new owner was harmed"
    check(database, crew)


async def test_a_dispatcher_whose_lease_was_reclaimed_cannot_mark_its_event(database: str, crew: Crew) -> None:
    async with opened(database) as store:
        await store.submit(Submission(type="t", callback_url="http://receiver.invalid/"))
        await store.claim(ClaimRequest(worker_id="w", limit=1))
        [stale] = await store.outbox.claim("dispatcher:1", 10, lease_ttl_us=1)

        async def reclaimed() -> bool:
            return await store.sweeps.reclaim_events() == 1

        await until(reclaimed)
        [fresh] = await store.outbox.claim("dispatcher:2", 10)
        assert (fresh.id, fresh.body) == (stale.id, stale.body)
        assert fresh.claim_version == stale.claim_version + 1
        before = rows(database, "SELECT * FROM job_outbox_events")
        assert await store.outbox.heartbeat([(stale.id, stale.claim_version)]) == set()
        assert await store.outbox.settle([_delivered(stale.id, stale.claim_version)]) == set()
        assert rows(database, "SELECT * FROM job_outbox_events") == before
        assert await store.outbox.settle([_delivered(fresh.id, fresh.claim_version)]) == {fresh.id}


async def test_a_payload_that_kills_its_worker_is_dead_lettered_after_exactly_its_budget(
    database: str, crew: Crew
) -> None:
    async with opened(database) as store:
        submitted = await store.submit(Submission(type="poison", max_attempts=3, retry=actors.AT_ONCE))
        for _ in range(3):
            victim = crew.start(actors.holder, database, 1, 50_000)
            assert len(await victim.report()) == 1
            victim.kill()

            async def given_up() -> bool:
                await store.sweeps.urgent()
                return (await store.get(submitted.job_id)).state in (State.SCHEDULED, State.DEAD_LETTER)

            await until(given_up)
        job = await store.get(submitted.job_id)
        assert (job.state, job.attempt_count) == (State.DEAD_LETTER, 3)
        assert [a.outcome for a in await store.attempts(job.id)] == ["system"] * 3
    check(database, crew)


async def _submit(store: SqlStore, count: int) -> None:
    await store.submit_many(
        [Submission(type="t", retry=actors.AT_ONCE, callback_url="http://receiver.invalid/") for _ in range(count)]
    )


async def _taken_over(store: SqlStore, count: int) -> list[Claim]:
    """Wait for the leases to run out, let a sweep reclaim them, and claim the jobs for somebody else."""
    heir: list[Claim] = []

    async def claimed() -> bool:
        await store.sweeps.urgent()
        heir.extend(await store.claim(ClaimRequest(worker_id="heir:1", limit=count)))
        return len(heir) == count

    await until(claimed)
    return heir


def _everything(url: str) -> list[list[tuple[object, ...]]]:
    tables = ("inbox_jobs", "job_attempts", "job_outbox_events", "job_dependencies")
    return [sorted(rows(url, f"SELECT * FROM {table}"), key=str) for table in tables]


def _delivered(event_id: str, claim_version: int) -> Delivery:
    return Delivery(event_id=event_id, claim_version=claim_version, state="completed", outcome="delivered")
