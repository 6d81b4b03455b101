"""Limits, pauses and periodic jobs hold over all workers, wherever they run."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from euterpe.model.state import State
from euterpe.queue.queue import Queue
from tests.worker.floor import Floor, in_state, until


async def all_completed(client: Queue, count: int) -> None:
    async def done() -> bool:
        return (await client.stats()).by_state == {"completed": count}

    await until(done, f"{count} jobs are completed")


async def test_a_type_with_a_limit_of_one_never_runs_twice_at_once(client: Queue, floor: Floor) -> None:
    workers = [floor.start(concurrency=5) for _ in range(3)]
    for worker in workers:
        await worker.working()
    await client.submit_many([("alone", {})] * 15, concurrency_key="type:alone", concurrency_limit=1)
    await all_completed(client, 15)
    running = most = 0
    for line in floor.journal():
        running += {"begun": 1, "done": -1}[line["act"]]
        most = max(most, running)
    assert most == 1


async def test_a_key_with_a_limit_of_two_runs_at_most_two_at_once_and_other_keys_beside_it(
    client: Queue, floor: Floor
) -> None:
    for worker in [floor.start(concurrency=5) for _ in range(3)]:
        await worker.working()
    for key in ("a", "b"):
        await client.submit_many([("keyed", {"key": key})] * 10, concurrency_key=key, concurrency_limit=2)
    await all_completed(client, 20)
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for line in floor.journal():
        running[line["key"]] += {"begun": 1, "done": -1}[line["act"]]
        most[line["key"]] = max(most[line["key"]], running[line["key"]])
    assert most["a"] <= 2
    assert most["b"] <= 2


async def test_a_paused_type_or_queue_waits_until_it_is_resumed_and_the_rest_goes_on(
    client: Queue, floor: Floor
) -> None:
    for worker in [floor.start(queues=["default", "reports"], poll="10m") for _ in range(2)]:
        await worker.working()
    await client.pause(type="alone")
    await client.pause(queue="reports")
    of_type = await client.submit("alone")
    of_queue = await client.submit("quick", {"value": 1}, queue="reports")
    for value in range(5):
        await in_state(client, await client.submit("quick", {"value": value}), State.COMPLETED)
    assert (await client.get(of_type.id)).state is State.SCHEDULED
    assert (await client.get(of_queue.id)).state is State.SCHEDULED
    await client.resume(type="alone")
    await in_state(client, of_type, State.COMPLETED)
    await client.resume(queue="reports")
    await in_state(client, of_queue, State.COMPLETED)


async def test_every_tick_of_a_cron_is_submitted_once_by_three_workers(client: Queue, floor: Floor) -> None:
    """Every second, all three workers want to submit the same tick."""
    for worker in [floor.start(cron=True) for _ in range(3)]:
        await worker.working()
    await floor.noted("ticked", count=4)
    for worker in floor.workers:
        worker.process.terminate()
        assert await worker.ended() == 0
    page = await client.search(type="tick", limit=100)
    keys = [job.idempotency_key or "" for job in page.jobs]
    ticks = sorted(datetime.strptime(key[-20:], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) for key in keys)
    assert len(set(ticks)) == len(ticks) >= 4
    assert [b - a for a, b in pairwise(ticks)] == [timedelta(seconds=1)] * (len(ticks) - 1)
    ran = Counter(line["job"] for line in floor.journal("ticked"))
    assert set(ran.values()) == {1}
    submitted_at = [job.created_at.timestamp() for job in page.jobs]
    print(f"{len(ticks)} ticks; latest {max(at - int(at) for at in submitted_at):.3f} s after its second")
