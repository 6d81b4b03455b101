"""A queue that was opened before a fork says so in the child, and goes on in the parent."""

from __future__ import annotations

import os
import signal

import pytest

from euterpe import Queue


@pytest.fixture(params=["sqlite_url", "fresh_postgres_url"])
def url(request: pytest.FixtureRequest) -> str:
    fresh: str = request.getfixturevalue(request.param)
    return fresh


def test_a_child_is_told_to_make_a_queue_of_its_own(url: str) -> None:
    queue = Queue(url)
    queue.sync.submit("t")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            queue.sync.submit("t")
        except Exception as error:  # noqa: BLE001  # told to the parent
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    assert status == 0, "the child hung"
    assert "opened before a fork" in said
    queue.sync.submit("t")
    queue.sync.close()
