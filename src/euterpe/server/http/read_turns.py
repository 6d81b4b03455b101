"""Bound the answers that one requester can leave unread: each of its reads takes a turn, and a large answer keeps the
turn until the client has read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from euterpe.server.http.problems import Refusal


class ReadTurns:
    """Turns of every requester that reads at the moment."""

    def __init__(self, at_once: int, wait_s: float) -> None:
        self._at_once = at_once
        self._wait_s = wait_s
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}
        """For each requester: its turns, and how many reads hold or await one."""

    @asynccontextmanager
    async def of(self, requester_id: str) -> AsyncIterator[None]:
        free, users = self._turns.get(requester_id) or (asyncio.Semaphore(self._at_once), 0)
        self._turns[requester_id] = (free, users + 1)
        try:
            await self._take(free)
            try:
                yield
            finally:
                free.release()
        finally:
            users = self._turns[requester_id][1] - 1
            if users:
                self._turns[requester_id] = (free, users)
            else:
                del self._turns[requester_id]

    async def _take(self, free: asyncio.Semaphore) -> None:
        if not free.locked():
            await free.acquire()
            return
        try:
            async with asyncio.timeout(self._wait_s):
                await free.acquire()
        except TimeoutError:
            detail = f"{self._at_once} answers to this requester are not read yet; read or close them first"
            raise Refusal(429, "answers_unread", detail, headers=((b"retry-after", b"1"),)) from None
