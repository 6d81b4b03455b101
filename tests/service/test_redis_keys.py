"""What the configuration says of Redis has an effect: which roles use it, and how they talk to it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from euterpe.backends.engines import redis_tuning_of
from euterpe.config import load_config
from euterpe.redis.connection import open_idle, redis_client
from euterpe.redis.settings import RedisTuning
from tests.cli.commands import Shell, clean_environment
from tests.patience import in_time
from tests.wakeups.crew import until

TROUBLE = (redis.exceptions.RedisError, OSError, TimeoutError)
COMMANDS = {
    "api": ("--role=api",),
    "all": ("--role=all",),
    "worker": ("worker", "app:queue"),
    "outbox": ("--role=outbox", "--app", "app:queue"),
}


def configured(redis_url: str) -> dict[str, str]:
    parts = urlsplit(redis_url)
    return {
        "TRANSPORT_KIND": "streams",
        "REDIS_ADDR": f"{parts.hostname}:{parts.port}",
        "REDIS_PASSWORD": parts.password or "",
        "REDIS_DB": parts.path.strip("/") or "0",
    }


@pytest.mark.parametrize("role", COMMANDS)
async def test_every_role_uses_the_transport_that_is_configured(
    role: str, sqlite_url: str, redis_url: str, tmp_path: Path
) -> None:
    shutil.copy(Path(__file__).parents[1] / "cli" / "app.py", tmp_path / "app.py")
    shell = Shell(tmp_path, clean_environment(ENGINE_URL=sqlite_url, REDIS_MIN_IDLE_CONNS="7", **configured(redis_url)))
    running = shell.background(*COMMANDS[role])
    try:
        with redis.Redis.from_url(redis_url) as client:
            # Seven of its own: the number says that the other keys reach it, too.
            await until(lambda: sum(c["name"] == "euterpe" for c in client.client_list()) >= 7, 20)
        running.until_said('"msg":"started"')
        running.tell(signal.SIGTERM)
        assert running.ended() == 0
    finally:
        running.close()


def test_the_keys_become_what_a_client_is_made_with() -> None:
    said = {
        "REDIS_POOL_SIZE_MULTIPLIER": "3",
        "REDIS_MIN_IDLE_CONNS": "2",
        "REDIS_DIAL_TIMEOUT": "1s",
        "REDIS_READ_TIMEOUT": "2s",
        "REDIS_WRITE_TIMEOUT": "4s",
        "REDIS_MAX_RETRIES": "6",
    }
    tuning = redis_tuning_of(load_config(None, said))
    assert (tuning.dial_timeout_s, tuning.read_timeout_s, tuning.write_timeout_s) == (1, 2, 4)
    assert (tuning.min_idle, tuning.max_retries) == (2, 6)
    assert tuning.pool_size % 3 == 0


@asynccontextmanager
async def deaf_server(answers: bytes = b"", drops: bool = False) -> AsyncIterator[tuple[str, list[float]]]:
    """Takes connections, says at most this much, and then neither reads nor writes; or hangs up at once."""
    came: list[float] = []
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(time.monotonic())
        if drops:
            writer.close()
            return
        await reader.read(1)
        writer.write(answers)
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # a peer that has stopped
        await gone.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", came
    finally:
        gone.set()
        server.close()


async def failing_after(client: Any, value: str = "x", most_s: float = 5) -> float:
    began = time.monotonic()
    with pytest.raises(TROUBLE):
        await client.set("key", value)
    await client.aclose()
    took_s = time.monotonic() - began
    in_time(took_s, most_s)
    return took_s


async def test_an_answer_may_take_as_long_as_the_read_timeout() -> None:
    async with deaf_server() as (url, _):
        tuning = RedisTuning(read_timeout_s=0.3, write_timeout_s=30, max_retries=0)
        assert await failing_after(redis_client(url, tuning)) > 0.25


async def test_sending_may_take_as_long_as_the_write_timeout() -> None:
    async with deaf_server(b"+OK\r\n" * 3) as (url, _):
        tuning = RedisTuning(read_timeout_s=30, write_timeout_s=0.3, max_retries=0)
        assert await failing_after(redis_client(url, tuning), "x" * 50_000_000, most_s=10) > 0.25


async def test_connecting_may_take_as_long_as_the_dial_timeout() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = []
        for _ in range(4):  # once its line is full, nobody is answered any more
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
            fillers.append(filler)
        url = f"redis://127.0.0.1:{full.getsockname()[1]}/0"
        tuning = RedisTuning(dial_timeout_s=0.3, read_timeout_s=30, max_retries=0)
        assert await failing_after(redis_client(url, tuning)) > 0.25
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_command_is_tried_again_as_often_as_said(retries: int) -> None:
    async with deaf_server(drops=True) as (url, came):
        await failing_after(redis_client(url, RedisTuning(max_retries=retries)))
        fewest = len(came)
    assert fewest == 1 if retries == 0 else fewest >= 3


async def test_the_pool_has_a_size_and_connections_that_wait_in_it(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as looking:
        before = {each["id"] for each in looking.client_list()}

        def connections() -> int:
            """New ones to this database: others use the server, too, and may just be leaving."""
            ours = urlsplit(redis_url).path.strip("/")
            return sum(each["db"] == ours and each["id"] not in before for each in looking.client_list())

        client: Any = redis_client(redis_url, RedisTuning(pool_size=3, min_idle=2))
        await open_idle(client, 2)
        assert connections() == 2
        waiting = [asyncio.ensure_future(client.blpop("nothing", 1)) for _ in range(8)]
        await until(lambda: connections() >= 3)
        assert connections() == 3
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await client.aclose()
