"""What a queue is made of: its backend, its job types, and who waits for which job.

The public `Queue` shows none of it. Handles, job types, workers and the other rooms share this one object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from euterpe.backends.engines import Backend, connect
from euterpe.model.claims.exchange import SettleResult
from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.job import Claim, JobRow
from euterpe.model.state import State
from euterpe.model.submitting.batch import SubmitResult
from euterpe.model.submitting.submission import PAYLOAD_CEILING, Submission
from euterpe.ports import Clock, Store, Wakeups
from euterpe.queue.definition.cron import Cron
from euterpe.queue.definition.job_type import Definition
from euterpe.queue.handle import JobHandle, handle_of_row
from euterpe.queue.result_wait import ResultWaiters
from euterpe.queue.submitting.submit_middleware import SubmitMiddleware, submit_through
from euterpe.runtime.shutdown import ShutdownDeadline
from euterpe.worker.handling.handlers import Handlers
from euterpe.worker.handling.hooks import Hooks

if TYPE_CHECKING:  # Loaded with the first worker.
    from euterpe.worker.claiming.circuits import SharedCircuits


class QueueCore:
    """A queue on the inside. It may be opened many times over; the last one to close closes the database."""

    def __init__(
        self,
        url: str,
        *,
        payload_limit: int,
        clock: Clock | None,
        transport: str | None,
        token: str | None,
        idempotency_window: DurationLike | None,
    ) -> None:
        if not 1 <= payload_limit <= PAYLOAD_CEILING:
            raise InvalidInput("payload_limit", f"{payload_limit} is not between 1 and {PAYLOAD_CEILING} bytes")
        if idempotency_window is not None:
            parse_duration_us(idempotency_window, "idempotency_window")
        self.url = url
        self.payload_limit = payload_limit
        self.idempotency_window = idempotency_window
        self.handlers = Handlers()
        self.definitions: dict[str, Definition] = {}
        self.crons: list[Cron] = []
        self.hooks = Hooks()
        self.submit_middleware: list[SubmitMiddleware] = []
        self.shutdown = ShutdownDeadline()
        self._backend: Backend = connect(
            url, clock=clock, payload_limit=payload_limit, wakeups_url=transport, token=token
        )
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        # A queue lives at the top of a module and may see many event loops, one after the other.
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._waiters = ResultWaiters()
        self._circuits: dict[BreakerPolicy, SharedCircuits] = {}

    # --- life ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._opening.setdefault(loop, asyncio.Lock()):
            if self._loop is not None and self._loop is not loop:
                raise EuterpeError("this queue is open on another event loop; make a Queue for each, or use queue.sync")
            if not self._users:
                self._loop = loop
                try:
                    await self._backend.open()
                except BaseException:
                    self._loop = None
                    raise
            self._users += 1

    async def close(self) -> None:
        async with self._opening[asyncio.get_running_loop()]:
            self._users -= 1
            if not self._users:
                try:
                    await self._backend.close(self.shutdown)
                finally:
                    self._loop = None
                    self.shutdown.clear()

    @property
    def users(self) -> int:
        """How many have it open."""
        return self._users

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Where the queue is open, if it is."""
        return self._loop if self._users else None

    # --- the backend --------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        return self._backend.store

    @property
    def wakeups(self) -> Wakeups:
        return self._backend.wakeups

    @property
    def channel(self) -> str | None:
        """Where Postgres tells of jobs that a caller's own transaction brings."""
        return self._backend.channel

    @property
    def backend_url(self) -> str:
        """The URL by which another process of this machine reaches the same database."""
        return self._backend.url

    def exchange_backend(self, backend: Backend) -> Backend:
        """Put this queue on another database while it is closed; returns the one it had."""
        if self._users:
            raise EuterpeError("this queue is open; its database can be exchanged only before `async with queue:`")
        before, self._backend = self._backend, backend
        return before

    # --- jobs ---------------------------------------------------------------------------------------

    async def get(self, job_id: str) -> JobRow:
        return await self.store.get(job_id)

    async def cancel(self, job_id: str, force: bool) -> State:
        return await self.store.cancel(job_id, force=force)

    async def retry(self, job_id: str) -> JobRow:
        row = await self.store.retry(job_id)
        self.wakeups.announce([row.queue])
        return row

    async def spawn(self, claim: Claim, submissions: Sequence[Submission]) -> list[str]:
        submit_results: list[SubmitResult]
        if self.submit_middleware:
            store = partial(self.store.spawn, claim.lease)
            submit_results = await submit_through(self.submit_middleware, submissions, self.payload_limit, store)
        else:
            submit_results = await self.store.spawn(claim.lease, submissions)
        return [submitted.job_id for submitted in submit_results]

    def circuits_of(self, policy: BreakerPolicy) -> SharedCircuits:
        """The circuit breakers that all workers of this queue with one policy share."""
        from euterpe.worker.claiming.circuits import SharedCircuits

        return self._circuits.setdefault(policy, SharedCircuits(policy))

    async def charge(self, claim: Claim, tokens: int) -> None:
        job = claim.job
        if job.concurrency_key is not None:
            await self.store.rates.charge(job.concurrency_key, tokens, job.requester_id)

    def waiting_for(self, job_id: str) -> AbstractContextManager[asyncio.Event]:
        """An event that a worker of this very queue sets when the job is ended: no poll to wait for."""
        return self._waiters.watch(job_id)

    def settled(self, job_ids: Sequence[str], verdict: SettleResult) -> None:
        self._waiters.settled(job_ids, verdict)

    # --- handles ------------------------------------------------------------------------------------

    def handles_of(self, submit_results: Sequence[SubmitResult]) -> list[JobHandle[Any]]:
        handles: list[JobHandle[Any]] = []
        job_type, returns = None, None
        for submitted in submit_results:
            if submitted.type != job_type:
                job_type, returns = submitted.type, self._returns(submitted.type)
            state, created_at, replayed = submitted.state, submitted.created_at, submitted.replayed
            handles.append(JobHandle(self, submitted.job_id, submitted.type, state, created_at, replayed, returns))
        return handles

    def handle_of_row(self, row: JobRow) -> JobHandle[Any]:
        return handle_of_row(self, row, self._returns(row.type))

    def _returns(self, job_type: str) -> Any:  # an annotation, of any form
        definition = self.definitions.get(job_type)
        return definition.handler.returns if definition is not None else Any
