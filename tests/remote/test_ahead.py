"""What a worker over HTTP claims ahead of its free slots: it is asked for and charged as beside the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from euterpe import Queue
from euterpe.model.state import State
from euterpe.queue.queue import core_of
from euterpe.stores.remote.store import with_token
from tests.remote.conftest import Remote
from tests.worker.floor import Floor, in_state

JOB: dict[str, Any] = {
    "lease_token": "t",
    "stream": {"name": "default", "message_id": "m"},
    "queue": "default",
    "payload": {},
    "lease_ttl_seconds": 60.0,
    "type": "work",
    "attempt": 1,
    "max_attempts": 3,
    "timeout_seconds": 60.0,
    "lease_expires_at": "2026-01-01T00:01:00.000000Z",
    "priority": "normal",
    "created_at": "2026-01-01T00:00:00.000000Z",
}


@pytest.fixture
def floor(remote: Remote, tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(with_token(remote.base_url, remote.key), tmp_path)
    yield floor
    floor.dismiss()


@pytest.fixture
async def client(url: str, remote: Remote) -> AsyncIterator[Queue]:
    """At the database of the control plane."""
    assert remote.url == url
    async with Queue(url) as queue:
        yield queue


async def test_a_worker_over_http_that_dies_is_charged_for_what_it_had_begun_alone(client: Queue, floor: Floor) -> None:
    first = await client.submit("gated", priority=0)
    poison = await client.submit("dies_on_the_loop", max_attempts=2, priority=1)
    waiting = [await client.submit("quick", {"value": n}) for n in range(6)]
    worker = floor.start(concurrency=1, ahead=["dies_on_the_loop", "quick"])
    await floor.noted("begun", first)
    for job in (poison, *waiting):
        await in_state(client, job, State.RUNNING)
    floor.open_gate()
    assert await worker.ended() == 7
    for job in waiting:
        assert (await in_state(client, job, State.SCHEDULED)).attempt_count == 0, "what never began is not charged"
    assert (await core_of(client).get(poison.id)).attempt_count == 1, "what began is charged"
