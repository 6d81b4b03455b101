"""A queue that was opened before a fork says so in the child, and goes on in the parent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import NoReturn

import pytest

from euterpe import Queue


@pytest.fixture(params=["sqlite_url", "fresh_postgres_url"])
def url(request: pytest.FixtureRequest) -> str:
    fresh: str = request.getfixturevalue(request.param)
    return fresh


def tell_the_parent(writer: int, act: Callable[[], object]) -> NoReturn:
    signal.alarm(10)
    try:
        act()
    except Exception as error:  # noqa: BLE001  # told to the parent
        os.write(writer, str(error).encode())
    os._exit(0)


async def test_a_child_of_an_event_loop_is_told_so_too(url: str) -> None:
    async with Queue(url) as queue:
        await queue.submit("t")
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            asyncio._set_running_loop(None)
            tell_the_parent(writer, lambda: asyncio.run(queue.submit("t")))
        os.close(writer)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        said = os.read(reader, 1000).decode()
        os.close(reader)
        assert status == 0, "the child hung"
        assert "opened before a fork" in said
        await queue.submit("t")


def test_a_child_is_told_to_make_a_queue_of_its_own(url: str) -> None:
    queue = Queue(url)
    queue.sync.submit("t")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        tell_the_parent(writer, lambda: queue.sync.submit("t"))
    os.close(writer)
    _, status = os.waitpid(child, 0)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    assert status == 0, "the child hung"
    assert "opened before a fork" in said
    queue.sync.submit("t")
    queue.sync.close()
