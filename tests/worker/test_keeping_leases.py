"""A lease is kept while its handler works, however it works; it is lost when the worker freezes or dies."""

from __future__ import annotations

import signal
import time

import pytest

from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from tests.patience import in_time
from tests.worker.floor import Floor, in_state, is_alive, until
from tests.worker.stalls import stalls

LEASE_S = 5.0
LEASE = f"{LEASE_S}s"
THREE_LEASES_S = 3 * LEASE_S
SWEEP_S = 3.0


@pytest.mark.parametrize(
    ("url", "job_type"),
    [("sqlite", "block_loop"), ("sqlite", "hold_gil"), ("sqlite", "block_thread"), ("postgres", "hold_gil")],
    indirect=["url"],
)
async def test_a_handler_that_blocks_its_worker_for_three_leases_loses_nothing(
    client: Queue, floor: Floor, job_type: str
) -> None:
    worker = floor.start(lease=LEASE, concurrency=4)
    sweeping = floor.start(lease=LEASE, queues=["other"])  # it would take the jobs back if a lease ran out
    await worker.working()
    await sweeping.working()
    neighbour = await client.submit("gated")
    await floor.noted("begun", neighbour)
    job = await client.submit(job_type, {"seconds": THREE_LEASES_S})
    ended = await in_state(client, job, State.COMPLETED)
    floor.open_gate()
    await in_state(client, neighbour, State.COMPLETED)
    assert ended.attempt_count == 1
    assert (ended.completed_at or 0) - (ended.started_at or 0) >= THREE_LEASES_S * 1_000_000
    assert [(line["attempt"], line["pid"]) for line in floor.journal("begun")] == [(1, worker.pid)] * 2


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_holding_the_interpreter_for_three_leases_in_the_middle_of_a_write_loses_nothing(
    client: Queue, floor: Floor
) -> None:
    """The file stays locked meanwhile, so no process can renew a lease. Both workers look for lost jobs afterwards."""
    worker = await floor.start(lease=LEASE, concurrency=4).working()
    await floor.start(lease=LEASE, queues=["other"]).working()
    neighbour = await client.submit("gated")
    await floor.noted("begun", neighbour)
    job = await client.submit("hold_gil_in_a_write", {"seconds": THREE_LEASES_S})
    ended = await in_state(client, job, State.COMPLETED)
    floor.open_gate()
    await in_state(client, neighbour, State.COMPLETED)
    assert ended.attempt_count == 1
    assert [(line["attempt"], line["pid"]) for line in floor.journal("begun")] == [(1, worker.pid)] * 2


async def test_a_job_that_is_over_but_not_yet_written_keeps_its_lease_while_the_loop_is_blocked(
    client: Queue, floor: Floor
) -> None:
    """Both are claimed together and run in the same pass of the loop: `quick` ends first and cannot be settled."""
    await client.pause(queue="default")
    quick = await client.submit("quick", {"value": 7}, priority="high")
    blocking = await client.submit("block_loop", {"seconds": THREE_LEASES_S})
    await client.resume(queue="default")
    await floor.start(lease=LEASE, concurrency=4).working()
    await floor.noted("begun", blocking)
    await floor.start(lease=LEASE, concurrency=4, queues=["other"]).working()
    assert (await in_state(client, blocking, State.COMPLETED)).attempt_count == 1
    assert (await in_state(client, quick, State.COMPLETED)).attempt_count == 1
    assert len(floor.journal("ran", quick)) == 1


async def test_a_worker_stopped_past_its_lease_loses_the_job_and_its_late_write_bounces(
    client: Queue, floor: Floor
) -> None:
    frozen = await floor.start(lease=LEASE).working()
    job = await client.submit("gated")
    await floor.noted("begun", job)
    frozen.signal(signal.SIGSTOP)
    await floor.start(lease=LEASE).working()
    second = await floor.noted("begun", job, count=2)
    assert second["pid"] != frozen.pid
    assert second["attempt"] == 2
    frozen.signal(signal.SIGCONT)
    await until(lambda: floor.journal("cancelled", job), "the lost lease cancels the late attempt")
    await until(lambda: frozen.said("the lease was lost"), "the late worker says so")
    floor.open_gate()
    ended = await in_state(client, job, State.COMPLETED)
    assert ended.attempt_count == 2
    assert len(floor.journal("done", job)) == 1
    assert [a.outcome for a in await client.attempts(job.id)] == ["system", "completed"]


async def test_a_late_completion_of_a_worker_that_slept_through_its_lease_bounces(client: Queue, floor: Floor) -> None:
    """The gate opens while both attempts run: the thawed one finishes before it hears that its lease is gone."""
    frozen = await floor.start(lease=LEASE).working()
    job = await client.submit("gated")
    await floor.noted("begun", job)
    frozen.signal(signal.SIGSTOP)
    await floor.start(lease=LEASE).working()
    await floor.noted("begun", job, count=2)
    floor.open_gate()
    ended = await in_state(client, job, State.COMPLETED)
    frozen.signal(signal.SIGCONT)
    await until(
        lambda: frozen.said("late writes bounced") or frozen.said("the lease was lost"), "the late write is refused"
    )
    after = await core_of(client).get(job.id)
    assert (after.claim_version, after.result, after.updated_at) == (2, b"2", ended.updated_at)
    assert [a.outcome for a in await client.attempts(job.id)] == ["system", "completed"]


async def test_a_killed_worker_takes_its_keeper_along_and_its_job_is_back_in_time(client: Queue, floor: Floor) -> None:
    doomed = await floor.start(lease=LEASE).working()
    job = await client.submit("gated")
    await floor.noted("begun", job)
    keeper = await until(doomed.keeper, "the keeper runs")
    await floor.start(lease=LEASE, sweep=True).working()
    doomed.kill()
    killed_at = time.time()
    await until(lambda: not is_alive(keeper.pid), "the keeper ends with its worker")
    async with stalls() as waits:
        await floor.noted("begun", job, count=2)
    recovery_s = floor.journal("begun", job)[1]["at"] - killed_at
    floor.open_gate()
    assert (await in_state(client, job, State.COMPLETED)).attempt_count == 2
    print(f"recovered after {recovery_s:.2f} s (lease {LEASE_S} s, sweep {SWEEP_S} s, backoff 10 ms)")
    in_time(recovery_s, LEASE_S + SWEEP_S + 1.0 + 4 * waits.longest_s)


async def test_a_killed_keeper_is_started_again_and_the_lease_holds(client: Queue, floor: Floor) -> None:
    worker = await floor.start(lease="8s").working()
    job = await client.submit("gated")
    await floor.noted("begun", job)
    keeper = await until(worker.keeper, "the keeper runs")
    keeper.kill()
    await until(lambda: (new := worker.keeper()) is not None and new.pid != keeper.pid, "another keeper runs")
    await until(lambda: worker.said("is started again"), "the worker says so")
    before = (await core_of(client).get(job.id)).heartbeat_at or 0

    async def renewed() -> bool:
        return ((await core_of(client).get(job.id)).heartbeat_at or 0) > before

    await until(renewed, "the new keeper renews the lease")
    floor.open_gate()
    assert (await in_state(client, job, State.COMPLETED)).attempt_count == 1


async def test_an_idle_worker_has_no_keeper_until_it_claims(client: Queue, floor: Floor) -> None:
    worker = await floor.start().working()
    probe = await client.submit("nobody.knows")
    await until(lambda: worker.said("wait for a worker that knows their type"), "the worker has looked around")
    assert worker.keeper() is None
    await client.cancel(probe.id)
    await in_state(client, await client.submit("quick"), State.COMPLETED)
    assert worker.keeper() is not None


async def test_a_job_whose_visibility_is_shorter_than_the_lease_is_renewed_in_time(client: Queue, floor: Floor) -> None:
    """Its lease is capped by its visibility, so heartbeats at a third of the worker's lease would come too late."""
    worker = await floor.start(lease="60s").working()
    await floor.start(lease="60s", queues=["other"]).working()  # Its sweeps would take the job.
    await in_state(client, await client.submit("quick"), State.COMPLETED)
    await until(worker.keeper, "the keeper runs")
    job = await client.submit("gated", visibility="3s")
    await floor.noted("begun", job)
    first = (await core_of(client).get(job.id)).heartbeat_at or 0

    async def renewed_for_two_visibilities() -> bool:
        return ((await core_of(client).get(job.id)).heartbeat_at or 0) > first + 6_000_000

    await until(renewed_for_two_visibilities, "the short lease is renewed for six seconds")
    floor.open_gate()
    assert (await in_state(client, job, State.COMPLETED)).attempt_count == 1
