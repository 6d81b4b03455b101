"""Looking at jobs and steering them: search, retry, pause; and the life of a queue object."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from euterpe.model.errors import EuterpeError, IllegalTransition, InvalidInput, JobNotFound, PermanentError
from euterpe.model.state import State
from euterpe.queue.queue import Queue
from tests.worker.inline import working


async def test_search_finds_by_everything_it_names_page_by_page(queue: Queue) -> None:
    for n in range(5):
        await queue.submit("a", {"n": n}, tags={"team": "x" if n % 2 else "y"})
    other = await queue.submit("b", queue="reports")
    await queue.cancel(other.id)
    assert [job.type for job in (await queue.search(state="cancelled")).jobs] == ["b"]
    assert [job.type for job in (await queue.search(state=State.CANCELLED, queue="reports")).jobs] == ["b"]
    assert len((await queue.search(type="a", tag=("team", "x"))).jobs) == 2
    first = await queue.search(type="a", limit=3)
    second = await queue.search(type="a", limit=3, cursor=first.cursor)
    assert (len(first.jobs), len(second.jobs), second.cursor) == (3, 2, None)
    assert len({job.id for job in first.jobs + second.jobs}) == 5


@pytest.mark.parametrize(
    ("criteria", "field"),
    [
        ({"state": "lost"}, "state"),
        ({"tag": "team"}, "tag"),
        ({"tag": ("team", 1)}, "tag"),
        ({"limit": 0}, "limit"),
        ({"limit": "all"}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"type": 7}, "type"),
    ],
)
async def test_a_wrong_criterion_is_named(queue: Queue, criteria: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await queue.search(**criteria)
    assert refused.value.field == field


async def test_a_failed_job_with_budget_left_runs_again_as_itself_and_others_as_new_jobs(queue: Queue) -> None:
    fail = True

    @queue.job("works")
    async def works() -> str:
        if fail:
            raise PermanentError("not yet")
        return "done"

    async with working(queue):
        job = await works.submit()
        assert (await job.wait("20s")).state is State.FAILED
        fail = False
        again = await queue.retry(job.id)
        assert again.id == job.id
        assert again.created_at == job.created_at
        assert await again.result("20s") == "done"
        replay = await queue.retry(job.id)
        assert replay.id != job.id
        assert await replay.result("20s") == "done"
        assert (await queue.get(replay.id)).replay_of == job.id
    waiting = await queue.submit("nobody.runs.this")
    with pytest.raises(IllegalTransition):
        await queue.retry(waiting.id)


@pytest.mark.parametrize("target", [{}, {"queue": "a", "type": "b"}])
async def test_a_pause_names_a_queue_or_a_type(queue: Queue, target: dict[str, str]) -> None:
    for act in (queue.pause, queue.resume):
        with pytest.raises(InvalidInput) as refused:
            await act(**target)
        assert refused.value.field == "queue"


async def test_an_unknown_job_is_not_found(queue: Queue) -> None:
    unknown = "2f1cf4ac-6b7e-4d7c-9a52-5f2f8e0b3a11"
    for act in (queue.get, queue.attempts, queue.cancel, queue.retry):
        with pytest.raises(JobNotFound):
            await act(unknown)


def test_a_queue_at_the_top_of_a_module_serves_one_event_loop_after_the_other(url: str) -> None:
    queue = Queue(url)

    @queue.job("double")
    async def double(n: int) -> int:
        return n * 2

    async def once(n: int) -> int:
        async with working(queue):
            return await (await double.submit(n)).result("20s")

    assert asyncio.run(once(1)) == 2
    assert asyncio.run(once(2)) == 4
    assert asyncio.run(queue_stats(queue)) == {"completed": 2}


async def queue_stats(queue: Queue) -> dict[str, int]:
    async with queue:
        return (await queue.stats()).by_state


async def test_a_queue_may_be_entered_by_many_and_closes_with_the_last(url: str) -> None:
    queue = Queue(url)
    await asyncio.gather(*(queue.__aenter__() for _ in range(5)))
    for _ in range(4):
        await queue.__aexit__(None, None, None)
        await queue.submit("any.type")
    await queue.__aexit__(None, None, None)
    with pytest.raises(EuterpeError):
        await queue.submit("any.type")


async def test_a_queue_is_open_on_one_event_loop_at_a_time(url: str) -> None:
    queue = Queue(url)

    def elsewhere() -> str:
        try:
            asyncio.run(queue_stats(queue))
        except EuterpeError as error:
            return str(error)
        return ""

    async with queue:
        assert "another event loop" in await asyncio.to_thread(elsewhere)
        assert (await queue.stats()).by_state == {}


async def test_a_queue_that_could_not_open_can_try_again(tmp_path: Path) -> None:
    queue = Queue(f"sqlite:///{tmp_path}/folder/jobs.db")
    with pytest.raises(EuterpeError, match="folder exists"):
        async with queue:
            pass
    (tmp_path / "folder").mkdir()
    async with queue:
        await queue.submit("any.type")


async def test_a_memory_url_is_a_database_for_as_long_as_the_queue_object_lives() -> None:
    queue = Queue("sqlite:///:memory:")

    @queue.job("double")
    async def double(n: int) -> int:
        return n * 2

    async with working(queue, keeper=True):
        assert await (await double.submit(4)).result("20s") == 8
    async with queue:
        assert (await queue.stats()).by_state == {"completed": 1}
    other = Queue("sqlite:///:memory:")
    async with other:
        assert (await other.stats()).by_state == {}
