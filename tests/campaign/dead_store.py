"""A requester whose store is dead, beside one whose jobs of the same type are well."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg

from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import Queue, core_of
from tests.campaign.parts import opened
from tests.faults.crew import until
from tests.faults.recorder import rows

DEAD: Final = 60
HEALTHY: Final = 10
FAILED_S: Final = 10.0
ALLOWED_S: Final = 5.0
"""So long a healthy job may take from its submit to its end, on a machine without other work."""
PATIENCE_S: Final = 60.0


class DeadStore:
    """While it lasts, jobs of type `store` with `dead` fail. `took_s`: how long each healthy job took."""

    def __init__(self, url: str, transport: str | None, flag: Path) -> None:
        self._url = url
        self._transport = transport
        self._flag = flag
        self.took_s: list[float] = []

    async def last(self) -> None:
        self._flag.touch()
        try:
            async with opened(Queue(self._url, transport=self._transport)) as queue:
                await self._submit(queue, DEAD, "dead_store", b'{"dead": true}', priority=0, max_attempts=50)
                await self._until_most_wait()
                began_at = time.time_ns() // 1000
                await self._submit(queue, HEALTHY, "beside_it", b'{"dead": false}')
                await until(lambda: self._healthy_ended(began_at), PATIENCE_S)
        finally:
            self._flag.unlink()

    async def _submit(self, queue: Queue, count: int, requester: str, payload: bytes, **more: int) -> None:
        one = Submission(type="store", payload=payload, requester_id=requester, **more)  # type: ignore[arg-type]
        await core_of(queue).store.submit_many([one] * count)

    async def _until_most_wait(self) -> None:
        """Their circuits are open by then, or they have failed for a while."""

        async def keeps_waiting() -> bool:
            waiting = "SELECT count(*) FROM inbox_jobs WHERE requester_id = 'dead_store' AND state = 'retrying'"
            ((count,),) = await asyncio.to_thread(rows, self._url, waiting)
            return bool(count >= DEAD // 2)

        with suppress(TimeoutError):
            await until(keeps_waiting, FAILED_S)

    async def _healthy_ended(self, began_at: int) -> bool:
        ended = (
            "SELECT created_at, completed_at FROM inbox_jobs WHERE requester_id = 'beside_it'"
            f" AND created_at >= {began_at} AND completed_at IS NOT NULL"
        )
        try:
            found = await asyncio.to_thread(rows, self._url, ended)
        except psycopg.Error:
            return False
        if len(found) < HEALTHY:
            return False
        self.took_s += [(completed_at - created_at) / 1e6 for created_at, completed_at in found]
        return True


def kept_waiting(took_s: list[float], allowed_s: float) -> list[str]:
    return [f"a healthy job took {one:.1f} s of {allowed_s:.1f} s" for one in took_s if one > allowed_s]
