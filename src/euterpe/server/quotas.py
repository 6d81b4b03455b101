"""Optional quotas: how much one requester may have waiting, so that nobody fills the database alone.

Counting is one statement for all requesters. It is made when somebody submits, takes a twentieth of the time at most,
and what this process accepts meanwhile is added. So a quota is approximate: with several processes a requester may go
over it by what the others accepted since their last count. Without a quota nothing is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from euterpe.model.submission import Submission
from euterpe.model.views import Usage
from euterpe.server.http.problems import Refusal
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one

COUNT_EVERY_S: Final = 1.0
IDLE_FACTOR: Final = 20
"""A count that took long is not repeated for so many times as long."""
RETRY_AFTER: Final = ((b"retry-after", b"5"),)


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """What each requester may have; 0 is no limit."""

    waiting_jobs: int = 0
    """Jobs that have not ended."""
    waiting_bytes: int = 0
    """Their payloads."""
    idempotency_keys: int = 0

    @property
    def counts_jobs(self) -> bool:
        return bool(self.waiting_jobs or self.waiting_bytes)


class Quotas:
    """Says no to a submission that would go over its requester's quota."""

    def __init__(self, engine: Engine, quota: Quota, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._quota = quota
        self._clock = clock
        self._usage: dict[str, Usage] = {}
        self._good_until = float("-inf")
        self._counting: asyncio.Task[None] | None = None
        self._is_on = quota.counts_jobs or bool(quota.idempotency_keys)

    async def admit(self, requester_id: str, submissions: Sequence[Submission], batch_key: str | None = None) -> None:
        """Counts them as accepted; 429 when they are too many."""
        if not self._is_on:
            return
        await self._refresh()
        had = self._usage.setdefault(requester_id, Usage())
        wants = Usage(
            had.jobs + len(submissions),
            had.payload_bytes + sum(len(submission.payload) for submission in submissions),
            had.keys + sum(s.idempotency_key is not None for s in submissions) + (batch_key is not None),
        )
        quota = self._quota
        _check("waiting_jobs", "jobs that have not ended", wants.jobs, quota.waiting_jobs)
        _check(
            "waiting_bytes", "bytes of payload in jobs that have not ended", wants.payload_bytes, quota.waiting_bytes
        )
        if wants.keys > had.keys:
            _check("idempotency_keys", "idempotency keys", wants.keys, quota.idempotency_keys)
        self._usage[requester_id] = wants

    async def _refresh(self) -> None:
        """The first count is waited for; later ones are made beside."""
        if self._counting is None and self._clock() >= self._good_until:
            self._counting = asyncio.get_running_loop().create_task(self._count())
            self._counting.add_done_callback(self._counted)
            if self._good_until == float("-inf"):
                await asyncio.shield(self._counting)
        elif self._counting is not None and self._good_until == float("-inf"):
            await asyncio.shield(self._counting)

    async def _count(self) -> None:
        began = self._clock()
        self._usage = await self._engine.read(lambda: count_usage(self._quota))
        took_s = self._clock() - began
        self._good_until = self._clock() + max(COUNT_EVERY_S, IDLE_FACTOR * took_s)

    def _counted(self, task: asyncio.Task[None]) -> None:
        self._counting = None
        if not task.cancelled():
            task.exception()  # An outage: the old count stays, and the submission itself will tell.


def count_usage(quota: Quota) -> Program[dict[str, Usage]]:
    usage: dict[str, Usage] = {}
    if quota.counts_jobs:
        for requester_id, jobs, payload_bytes in (yield one("waiting_by_requester")):
            usage[requester_id] = Usage(jobs, int(payload_bytes))
    if quota.idempotency_keys:
        for scope, count in (yield one("keys_by_requester")):
            usage.setdefault(scope.partition(":")[2], Usage()).keys += count
    return usage


def _check(name: str, what: str, wanted: int, limit: int) -> None:
    if limit and wanted > limit:
        detail = f"this would make {wanted} {what}; `quotas.{name}` allows a requester {limit}"
        raise Refusal(429, "quota_exceeded", detail, headers=RETRY_AFTER)
