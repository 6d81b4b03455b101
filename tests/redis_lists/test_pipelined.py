"""The one connection for scripts: answers in order, losses told, and made again."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import msgspec
import pytest
import redis
import uvloop

from euterpe.redis.pipelined import PipelinedRedis
from euterpe.redis.settings import DEFAULT_TUNING

ONCE = msgspec.structs.replace(DEFAULT_TUNING, max_retries=0, read_timeout_s=30)
IMPATIENT = msgspec.structs.replace(ONCE, read_timeout_s=2)


@pytest.fixture
async def hot(redis_url: str) -> AsyncIterator[PipelinedRedis]:
    client = PipelinedRedis(redis_url, ONCE)
    yield client
    await client.close()


async def test_many_commands_at_once_get_their_own_answers(hot: PipelinedRedis) -> None:
    big = b"x" * 3_000_000
    values = [big if i == 50 else f"{i}".encode() for i in range(100)]
    assert await asyncio.gather(*(hot.execute("ECHO", value) for value in values)) == values


def test_it_runs_on_the_loop_of_the_roles(redis_url: str) -> None:
    async def ask() -> object:
        client = PipelinedRedis(redis_url, ONCE)
        try:
            return await client.execute("PING")
        finally:
            await client.close()

    assert uvloop.run(ask()) == b"PONG"


async def test_an_error_of_one_command_is_its_own(hot: PipelinedRedis) -> None:
    answers = await asyncio.gather(
        hot.execute("EVALSHA", "0" * 40, 0), hot.execute("NOSUCH"), hot.execute("PING"), return_exceptions=True
    )
    assert [type(answer).__name__ for answer in answers] == ["NoScriptError", "ResponseError", "bytes"]


async def test_a_cancelled_caller_shifts_nobodys_answer(hot: PipelinedRedis) -> None:
    await hot.execute("PING")
    waiting = asyncio.create_task(hot.execute("BLPOP", "nothing", "0.05", wait_s=1))
    behind = asyncio.create_task(hot.execute("ECHO", "mine"))
    await asyncio.sleep(0)
    waiting.cancel()
    assert await behind == b"mine"


async def test_an_answer_that_does_not_come_in_time_ends_the_connection_and_the_next_command_has_a_new_one(
    redis_url: str,
) -> None:
    client = PipelinedRedis(redis_url, IMPATIENT)
    late = asyncio.create_task(client.execute("BLPOP", "nothing", "60"))
    with pytest.raises(redis.TimeoutError):
        await late
    assert await client.execute("ECHO", "new") == b"new"
    await client.close()


async def test_a_lost_connection_is_told_or_tried_again(redis_url: str, hot: PipelinedRedis) -> None:
    patient = PipelinedRedis(redis_url, DEFAULT_TUNING)
    with redis.Redis.from_url(redis_url) as raw:
        for client in (hot, patient):
            await client.execute("PING")
        waiting = asyncio.create_task(hot.execute("BLPOP", "nothing", "60", wait_s=60))
        again = asyncio.create_task(patient.execute("BLPOP", "later", "60", wait_s=60))
        async with asyncio.timeout(30):
            while len(blocked(raw)) < 2:  # noqa: ASYNC110  # Redis says when they wait
                await asyncio.sleep(0.005)
        for client_id in blocked(raw):
            raw.client_kill_filter(_id=client_id)
        with pytest.raises(redis.ConnectionError):
            await waiting
        raw.lpush("later", "here")
        assert await again == [b"later", b"here"]
    await patient.close()


def blocked(raw: redis.Redis) -> list[str]:
    """Those of this test: other tests have other databases of this server, and wait there, too."""
    mine = str(raw.connection_pool.connection_kwargs["db"])
    return [str(c["id"]) for c in raw.client_list() if (c["cmd"], c["db"]) == ("blpop", mine)]


async def test_a_wrong_password_is_told_at_once(redis_url: str) -> None:
    client = PipelinedRedis(redis_url.replace("redis://:", "redis://:wrong"), DEFAULT_TUNING)
    with pytest.raises(redis.AuthenticationError):
        await client.execute("PING")


async def test_a_lost_connection_leaves_no_error_that_nobody_read(redis_url: str, hot: PipelinedRedis) -> None:
    """Two answers are awaited one after the other: the first raises, and nobody comes to read the second."""
    unread: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(str(context["message"])))
    waiting = asyncio.create_task(hot.execute_after(("BLPOP", "nothing", "60"), ("PING",), 60))
    with redis.Redis.from_url(redis_url) as raw:
        async with asyncio.timeout(30):
            while not blocked(raw):  # noqa: ASYNC110  # Redis says when it waits
                await asyncio.sleep(0.005)
        raw.client_kill_filter(_id=blocked(raw)[0])
    await asyncio.wait({waiting})
    assert isinstance(waiting.exception(), redis.ConnectionError)
    del waiting
    gc.collect()
    assert unread == []
