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

from euterpe.model.bulk import Action, BulkOrder
from euterpe.model.reading.views import Usage
from euterpe.model.submitting.submission import Submission
from euterpe.ports import ControlPlaneStore, Store
from euterpe.server.http.problems import Refusal

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

    def __init__(self, store: ControlPlaneStore, quota: Quota, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._quota = quota
        self._clock = clock
        self._usage: dict[str, Usage] = {}
        self._good_until = float("-inf")
        self._counting: asyncio.Task[None] | None = None
        self.is_on = quota.counts_jobs or bool(quota.idempotency_keys)

    async def admit(self, requester_id: str, submissions: Sequence[Submission], batch_key: str | None = None) -> None:
        """Counts them as accepted; 429 when they are too many."""
        if not self.is_on:
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

    async def admit_again(self, store: Store, job_id: str, requester_id: str | None) -> None:
        """A job that shall run again counts like a new one of its requester. Raises JobNotFound too."""
        if self.is_on:
            job = await store.get(job_id, requester_id)
            await self.admit(job.requester_id, [Submission(type=job.type, payload=job.payload)])

    async def admit_order(self, store: Store, order: BulkOrder) -> None:
        """Jobs of one requester that an operation would run again, as far as they are counted. Everybody's are an
        operator's business."""
        requester_id = order.search.requester_id
        if not self.is_on or requester_id is None or order.action is Action.CANCEL:
            return
        found = await store.operations.count(order.search, dependents=True)
        again = found.count + (found.dependents or 0)
        await self.admit(requester_id, [Submission(type="again", payload=b"")] * again)

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
        self._usage = await self._store.usage(
            of_jobs=self._quota.counts_jobs, of_keys=bool(self._quota.idempotency_keys)
        )
        took_s = self._clock() - began
        self._good_until = self._clock() + max(COUNT_EVERY_S, IDLE_FACTOR * took_s)

    def _counted(self, task: asyncio.Task[None]) -> None:
        self._counting = None
        if not task.cancelled():
            task.exception()  # An outage: the old count stays, and the submission itself will tell.


def _check(name: str, what: str, wanted: int, limit: int) -> None:
    if limit and wanted > limit:
        detail = f"this would make {wanted} {what}; `quotas.{name}` allows a requester {limit}"
        raise Refusal(429, "quota_exceeded", detail, headers=RETRY_AFTER)
