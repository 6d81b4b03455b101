"""Cancel: a request that the handler hears, or force, which takes the job away and stops the handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from euterpe.model.claims.exchange import HeartbeatReply
from euterpe.model.job import Lease
from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.cancel_watch import PAUSE_S
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import Floor, in_state, is_alive, until
from tests.worker.inline import working

LEASE = "4s"
SOON_S = 30.0
"""A fraction of a second on a quiet machine; the heartbeats of these tests are minutes apart."""
MODES = ["gated", "gated_thread", "gated_process"]


@pytest.mark.parametrize("job_type", MODES)
async def test_a_running_handler_hears_the_request_and_its_job_is_cancelled(
    client: Queue, floor: Floor, job_type: str
) -> None:
    await floor.start(lease=LEASE).working()
    job = await client.submit(job_type, {"gate": "never"})
    begun = await floor.noted("begun", job)
    assert await client.cancel(job.id) is State.RUNNING
    ended = await in_state(client, job, State.CANCELLED)
    assert floor.journal("cancelled" if job_type == "gated" else "stopped", job)
    assert ended.error_document is not None
    assert ended.error_document["code"] == "cancelled"
    assert [a.outcome for a in await client.attempts(job.id)] == ["cancelled"]
    if job_type == "gated_process":
        assert is_alive(begun["pid"])  # It tidied up and serves the next job.


@pytest.mark.parametrize("force", [False, True])
async def test_a_worker_in_another_process_hears_of_a_cancel_long_before_its_next_heartbeat(
    client: Queue, floor: Floor, force: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    await floor.start(lease="10m").working()
    job = await client.submit("gated", {"gate": "never"})
    await floor.noted("begun", job)
    begun = time.monotonic()
    await client.cancel(job.id, force=force)
    await floor.noted("cancelled", job)
    with capsys.disabled():
        print(f"\n  cancel to the handler's end: {(time.monotonic() - begun) * 1000:.0f} ms")


async def test_a_worker_of_the_same_process_hears_of_cancels_at_once_and_looks_once_for_many(url: str) -> None:
    queue = Queue(url)
    begun = asyncio.Semaphore(0)
    looks: list[int] = []

    @queue.job("endless")
    async def endless() -> None:
        begun.release()
        await asyncio.Event().wait()

    store = core_of(queue).store
    check_leases = store.check_leases

    async def watched(leases: Sequence[Lease]) -> list[HeartbeatReply]:
        looks.append(len(leases))
        return await check_leases(leases)

    store.check_leases = watched  # type: ignore[method-assign]
    async with working(queue, lease="10m"):
        jobs = [await queue.submit("endless") for _ in range(20)]
        for _ in jobs:
            await begun.acquire()
        looks.clear()
        started = time.monotonic()
        for job in jobs:
            await job.cancel()
        for job in jobs:
            await in_state(queue, job, State.CANCELLED, within_s=SOON_S)
        most = 2 + (time.monotonic() - started) / PAUSE_S
    assert 1 <= len(looks) <= most


@ON_SQLITE_ALONE
async def test_a_process_that_does_not_heed_the_request_is_killed(client: Queue, floor: Floor) -> None:
    await floor.start(lease=LEASE).working()
    job = await client.submit("gated_process", {"gate": "never", "heeds": False})
    begun = await floor.noted("begun", job)
    await client.cancel(job.id)
    await in_state(client, job, State.CANCELLED)
    await until(lambda: not is_alive(begun["pid"]) and not is_alive(begun["grandchild"]), "both are gone")


async def test_a_thread_that_does_not_heed_the_request_may_finish_its_work(client: Queue, floor: Floor) -> None:
    await floor.start(lease=LEASE).working()
    job = await client.submit("gated_thread", {"heeds": False})
    await floor.noted("begun", job)
    assert await client.cancel(job.id) is State.RUNNING
    await in_state_for_a_beat(client, floor)
    floor.open_gate()
    assert (await in_state(client, job, State.COMPLETED)).result == b'"done"'


@pytest.mark.parametrize("job_type", MODES)
async def test_force_ends_the_job_at_once_and_then_stops_the_handler(
    client: Queue, floor: Floor, job_type: str
) -> None:
    worker = await floor.start(lease=LEASE).working()
    job = await client.submit(job_type, {"gate": "never"})
    begun = await floor.noted("begun", job)
    assert await client.cancel(job.id, force=True) is State.CANCELLED
    assert (await client.get(job.id)).state is State.CANCELLED
    await until(lambda: worker.said("the lease was lost"), "the attempt is dropped")
    if job_type == "gated_process":
        await until(lambda: not is_alive(begun["pid"]) and not is_alive(begun["grandchild"]), "both are gone")
    elif job_type == "gated":
        assert floor.journal("cancelled", job)
    else:
        await floor.noted("stopped", job)
    assert (await client.get(job.id)).state is State.CANCELLED


async def test_a_waiting_job_is_cancelled_at_once_and_never_runs(client: Queue, floor: Floor) -> None:
    job = await client.submit("quick")
    assert await client.cancel(job.id) is State.CANCELLED
    await floor.start().working()
    await in_state(client, await client.submit("quick"), State.COMPLETED)
    assert floor.journal("ran", job) == []


async def in_state_for_a_beat(client: Queue, floor: Floor) -> None:
    """Until the keeper has come round once more, and so has brought the request."""
    probe = await client.submit("gated", {"gate": "never"})
    await floor.noted("begun", probe)
    await client.cancel(probe.id)
    await in_state(client, probe, State.CANCELLED)
