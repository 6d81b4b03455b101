"""Faults of the Redis that carries the wake-ups."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from typing import Final

import redis

from tests.campaign.plan import Fault
from tests.faults.recorder import rows
from tests.servers import RedisServer

STREAMS: Final = tuple(f"euterpe:default:{priority}" for priority in range(5))
GROUP: Final = "workers"
FORGERIES: Final = 30
PATIENCE_S: Final = 10.0


class RedisDamage:
    def __init__(self, server: RedisServer, url: str) -> None:
        self._server = server
        self._url = url
        """Of the database: a forger may know ids of jobs."""

    async def do(self, fault: Fault) -> None:
        match fault.kind:
            case "kill_redis":
                await asyncio.to_thread(self._server.stop, immediate=True)
                await asyncio.sleep(fault.lasts_s)
                await asyncio.to_thread(self._server.start)
            case "flush_redis":
                await asyncio.to_thread(self._flush)
            case "forge_messages":
                await asyncio.to_thread(self._forge, random.Random(f"forged {fault.choice}"))
            case unknown:
                raise LookupError(unknown)

    def _flush(self) -> None:
        with redis.Redis.from_url(self._server.url) as client:
            client.flushall()

    def _forge(self, rng: random.Random) -> None:
        """Jobs that never were, that have ended or run, no ids at all, no fields of ours, and everything twice."""
        known = [job_id for (job_id,) in rows(self._url, "SELECT CAST(id AS text) FROM inbox_jobs LIMIT 100")]
        job_ids = [*known, str(uuid.UUID(int=rng.getrandbits(128))), "", "not an id", "\x00", "9" * 5000]
        with redis.Redis.from_url(self._server.url) as client:
            for _ in range(FORGERIES):
                message = rng.choice(
                    [
                        {"job_id": rng.choice(job_ids), "enqueue_id": "forged"},
                        {"job_id": rng.choice(job_ids), "enqueue_id": "forged", "hops": rng.choice(["-1", "9e9", "x"])},
                        {b"\xff\xfe": b"\x80"},
                    ]
                )
                for _ in range(rng.choice([1, 2])):
                    client.xadd(rng.choice(STREAMS), message)


def unread(server: RedisServer) -> list[str]:
    """Streams with a message that nobody has read, though all work is done. What a killed worker has read stays pending
    for the visibility timeout."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = _unread(server)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def _unread(server: RedisServer) -> list[str]:
    found = []
    with redis.Redis.from_url(server.url) as client:
        for name in STREAMS:
            groups = client.xinfo_groups(name) if client.exists(name) else []
            pending = sum(group["pending"] for group in groups)
            if client.exists(name) and client.xlen(name) > pending:
                found.append(f"{name} has {client.xlen(name)} messages, {pending} of them pending")
    return found
