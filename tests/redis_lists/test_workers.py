"""Job types that were written for any queue run on Redis lists under the same worker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import redis

import euterpe
from euterpe import Context, JobFailed, Queue
from euterpe.config import load_config
from euterpe.queue.queue import core_of
from euterpe.service.components.producing import job_maker, produce, tree_of
from euterpe.service.components.tasks import CannotStart
from euterpe.service.roles import API, WORKER, run_role, tuning_of, use_configured_redis
from euterpe.stores.redis_lists.store import RedisListStore
from tests.redis_lists.foreign import HIGH, foreign


def in_a_process(number: int) -> int:
    return number * 3


@pytest.fixture
def queue(redis_url: str) -> Queue:
    queue = Queue(redis_url)

    @queue.job("async")
    async def on_the_loop(ctx: Context, number: int) -> int:
        await ctx.progress(50, "half")
        await ctx.checkpoint({"at": number})
        return number

    @queue.job("thread")
    def in_a_thread(number: int) -> int:
        return number * 2

    @queue.job("slow", timeout="50ms", max_attempts=1)
    async def too_slow() -> None:
        await asyncio.sleep(30)

    @queue.job("stubborn")
    async def until_cancelled(ctx: Context) -> None:
        await ctx.progress(1)
        await asyncio.sleep(30)

    @queue.job("parent")
    async def with_a_child(ctx: Context) -> None:
        await ctx.spawn(in_a_thread.with_args(number=1))

    queue.job("process", process=True)(in_a_process)
    return queue


async def test_handlers_of_every_kind_run_and_tell(queue: Queue) -> None:
    async with queue:
        working = asyncio.create_task(queue.work(concurrency=5, poll="50ms"))
        jobs = [await queue.submit(kind, {"number": 7}) for kind in ("async", "thread", "process")]
        assert [await job.result(timeout="30s") for job in jobs] == [7, 14, 21]
        assert (await queue.get(jobs[0].id)).progress is not None
        slow = await queue.submit("slow")
        with pytest.raises(JobFailed, match="timeout"):
            await slow.result(timeout="30s")
        await (await queue.submit("parent")).result(timeout="30s")
        asked = await queue.submit("stubborn")
        async with asyncio.timeout(30):
            while (await queue.get(asked.id)).progress is None:  # noqa: ASYNC110  # its handler says when it runs
                await asyncio.sleep(0.01)
        await queue.cancel(asked.id, force=True)
        with pytest.raises(JobFailed, match="cancelled"):
            await asked.result(timeout="30s")
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def test_a_worker_of_another_process_is_woken_by_a_token(redis_url: str) -> None:
    """Two queues share nothing in this process but the loop, and neither polls. A look without a token would take two
    minutes."""
    ours, theirs = Queue(redis_url), Queue(f"{redis_url}?brpoplpush_timeout=120s")
    started = asyncio.Event()

    @theirs.job("wake")
    async def wake() -> None:
        started.set()

    async with ours, theirs:
        working = asyncio.create_task(theirs.work(concurrency=1, poll="60s"))
        await ours.submit("wake")
        await asyncio.wait_for(started.wait(), 30)
        started.clear()
        await ours.submit("wake", priority="bulk")
        await asyncio.wait_for(started.wait(), 30)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


def config_of(path: Path, redis_url: str, **worker: object) -> Path:
    said = {
        "engine": {"url": redis_url},
        "worker": {"queues": {"high": "in:high", "low": "in:low"}, "completed_list": "out:done", **worker},
        "producer": {"scan_dir": str(path), "settle": "0s", "rate_limit_per_sec": 1000, "high_priority_exts": [".wav"]},
        "observability": {"metrics_port": 0},
    }
    file = path.parent / "euterpe.yaml"
    file.write_text(json.dumps(said))
    return file


async def test_producer_and_worker_make_the_pipeline_of_the_document(tmp_path: Path, redis_url: str) -> None:
    """`engine.url: redis://...` with the keys of `worker`: files become jobs in lists, and a role works them off."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.wav", "b.txt"):
        (folder / name).write_text("sound")
    config = load_config(str(config_of(folder, redis_url, max_retries=0, brpoplpush_timeout="200ms")), {})
    app, seen = Queue(redis_url), list[str]()

    @app.job("process_file")
    async def handle(filepath: str, filesize: int, priority: str) -> None:
        seen.append(f"{Path(filepath).name}:{filesize}:{priority}")
        if filepath.endswith(".txt"):
            raise euterpe.TemporaryError("not a sound")

    stop = asyncio.Event()
    producing = Queue(redis_url)
    use_configured_redis(config, producing)
    tree = tree_of(config)
    with redis.Redis.from_url(redis_url, decode_responses=True) as raw:
        async with producing:
            making = asyncio.create_task(produce(config, producing, tree, job_maker(config, producing, tree), stop))
            async with asyncio.timeout(30):
                while raw.llen("in:high") + raw.llen("in:low") < 2:  # noqa: ASYNC110  # the producer fills them
                    await asyncio.sleep(0.01)
            assert raw.exists("jobqueue:rate_limit:producer"), "the rate is kept in Redis"
            stop.set()
            await making
        assert json.loads(raw.lindex("in:high", 0))["filepath"].endswith("a.wav")
        running = asyncio.create_task(run_role(WORKER, config, app, tuning_of(config), lambda _: None))
        async with asyncio.timeout(30):
            while raw.llen("out:done") + raw.llen("jobqueue:dead_letter") < 2:  # noqa: ASYNC110  # the role does
                await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert (raw.llen("out:done"), raw.llen("jobqueue:dead_letter")) == (1, 1)
    assert sorted(seen) == ["a.wav:5:high", "b.txt:5:low"]


async def test_the_address_of_the_section_redis_is_used_where_the_url_names_none(redis_url: str) -> None:
    from urllib.parse import urlsplit

    from euterpe.backends.engines import engine_url_of

    parts = urlsplit(redis_url)
    environ = {
        "ENGINE_URL": "redis://",
        "REDIS_ADDR": f"{parts.hostname}:{parts.port}",
        "REDIS_PASSWORD": parts.password or "",
        "REDIS_DB": parts.path.strip("/"),
        "WORKER_COMPLETED_LIST": "out:done",
    }
    url = engine_url_of(load_config(None, environ))
    queue = Queue(url)
    store = core_of(queue).store
    assert isinstance(store, RedisListStore)
    assert (store.plain_url, store.settings.completed_list) == (redis_url, "out:done")
    async with queue:
        await store.ping()


async def test_a_role_that_needs_the_api_says_that_lists_serve_none(redis_url: str) -> None:
    config = load_config(None, {"ENGINE_URL": redis_url})
    with pytest.raises(CannotStart, match="--role=api needs a SQL database"):
        await run_role(API, config, Queue(redis_url), tuning_of(config), lambda _: None)


async def test_what_another_program_puts_there_is_found_when_the_wait_ends(redis_url: str) -> None:
    queue, done = Queue(f"{redis_url}?brpoplpush_timeout=100ms"), asyncio.Event()

    @queue.job("process_file")
    async def handle(filepath: str, filesize: int, priority: str) -> None:
        assert (filepath, filesize, priority) == ("/in/a.wav", 12, "high")
        done.set()

    async with queue:
        working = asyncio.create_task(queue.work(concurrency=1, poll="60s"))
        with redis.Redis.from_url(redis_url) as raw:
            raw.lpush(HIGH, foreign())
        await asyncio.wait_for(done.wait(), 30)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
