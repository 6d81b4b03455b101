"""What a handler logs is kept with its attempt, wherever the handler runs."""

from __future__ import annotations

import asyncio
import logging

from euterpe.model.claims.attempt_log import LINES_KEPT, AttemptLog
from euterpe.model.errors import TemporaryError
from euterpe.queue.queue import Queue, core_of
from tests.worker.floor import Floor
from tests.worker.inline import AT_ONCE, working

log = logging.getLogger("shop")


async def logs_of(queue: Queue, job_id: str) -> list[AttemptLog]:
    return await core_of(queue).store.attempt_logs(job_id)


def messages(log: AttemptLog) -> list[str]:
    return [line.message for line in log.lines]


async def test_lines_of_coroutines_and_threads_are_kept_with_their_attempt_alone(url: str) -> None:
    queue = Queue(url)
    both = asyncio.Barrier(2)

    @queue.job("talks", backoff=AT_ONCE)
    async def talks(name: str, attempt: int = 1) -> None:
        log.warning("%s begins", name)
        await both.wait()  # the two of them at the same time
        log.warning("%s ends, Authorization: Bearer abc.def", name)

    @queue.job("in_a_thread", backoff=AT_ONCE, max_attempts=2)
    def in_a_thread() -> None:
        try:
            raise ValueError("no such page")
        except ValueError:
            log.exception("in a thread")
        raise TemporaryError("again")

    @queue.job("quiet")
    async def quiet() -> int:
        return 1

    async with working(queue):
        a, b = await talks.submit(name="a"), await talks.submit(name="b")
        threaded, silent = await in_a_thread.submit(), await quiet.submit()
        for job in (a, b, threaded, silent):
            await job.wait("30s")
        log.warning("outside of any attempt")
        for job, name in ((a, "a"), (b, "b")):
            (kept,) = await logs_of(queue, job.id)
            assert messages(kept) == [f"{name} begins", f"{name} ends, Authorization: Bearer ***"]
            assert (kept.lines[0].level, kept.lines[0].logger) == ("warning", "shop")
        first, second = await logs_of(queue, threaded.id)
        assert (first.claim_version, second.claim_version) == (1, 2)
        assert first.lines[0].message.startswith("in a thread\nTraceback")
        assert first.lines[0].message.endswith("ValueError: no such page")
        assert await logs_of(queue, silent.id) == []


async def test_only_the_newest_lines_are_kept_and_none_where_nobody_wants_them(url: str) -> None:
    queue = Queue(url)

    @queue.job("chatters")
    async def chatters() -> None:
        for number in range(LINES_KEPT + 5):
            log.warning("line %d", number)

    async with working(queue):
        job = await chatters.submit()
        await job.result("30s")
        (kept,) = await logs_of(queue, job.id)
        assert (len(kept.lines), kept.dropped, kept.lines[-1].message) == (LINES_KEPT, 5, f"line {LINES_KEPT + 4}")
    async with working(queue, log_lines=2):
        job = await chatters.submit()
        await job.result("30s")
        (kept,) = await logs_of(queue, job.id)
        assert (len(kept.lines), kept.dropped) == (2, LINES_KEPT + 3)
    async with working(queue, log_lines=0):
        job = await chatters.submit()
        await job.result("30s")
        assert await logs_of(queue, job.id) == []


async def test_a_handler_in_a_process_has_its_keys_on_every_line_and_its_last_words_are_kept(
    floor: Floor, client: Queue
) -> None:
    worker = await floor.start().working()
    job = await client.submit("talks_in_a_process")
    assert await job.result("60s") == "done"
    first, second = await logs_of(client, job.id)
    assert messages(first) == ["attempt 1: password=***"]
    assert messages(second) == ["attempt 2: password=***"]
    told = worker.said("attempt ")
    assert [(line["job_id"], line["type"], line["attempt"]) for line in told if line["logger"] == "shop"] == [
        (job.id, "talks_in_a_process", 1),
        (job.id, "talks_in_a_process", 2),
    ]
