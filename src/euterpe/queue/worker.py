"""A worker that can be held: started, stopped and looked at."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from signal import Signals
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

import msgspec

from euterpe.model.claims.attempt_log import LINES_CEILING, LINES_KEPT
from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.ports import Telemetry, Trace
from euterpe.queue.steering.circuit_breaker import CircuitBreakerOptions, breaker_policy_of
from euterpe.queue.submitting.submitter import Submitter
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.identity import next_worker_id
from euterpe.worker.settings import PROMOTE_S, WorkerSettings

if TYPE_CHECKING:  # Loaded with the first worker that runs.
    from euterpe.worker.heartbeat.loop_watch import LoopWatch

SHORTEST_LEASE_US: Final = 1_000_000


class WorkerOptions(TypedDict, total=False):
    """The options of a worker. `queue.work` and `queue.worker` take them by name. The defaults are in brackets.

    `queues`: the queues that it claims from, preferred ones first (`["default"]`). `lease`: how long it owns a job
    without a heartbeat (`"60s"`, at least `"1s"`). `grace`: how long running jobs may finish after a stop (`"30s"`).
    `poll`: how often it looks for jobs without a wake-up (`"1s"`). `batch`: the most jobs of one claim (1000).
    `webhooks`: whether it also delivers webhooks (True). `circuit_breaker`: whether it leaves job types alone that keep
    failing (True, or `CircuitBreakerOptions`; False: never). `log_lines`: how many of the newest log lines of a handler
    are stored with its attempt (100; 0: none). `requester_share`: how much of its slots one requester may hold while
    jobs of others wait (0.5; 1: all). `telemetry`: an object that receives counts. `signals`: signals that stop it,
    such as `signal.SIGTERM`. `stop`: an event that stops it.

    Example:
        await queue.work(concurrency=20, queues=["mail", "default"], lease="30s")
    """

    queues: Sequence[str]
    lease: DurationLike
    grace: DurationLike
    poll: DurationLike
    batch: int
    webhooks: bool
    circuit_breaker: CircuitBreakerOptions | bool
    log_lines: int
    requester_share: float
    telemetry: Telemetry | None
    signals: Sequence[Signals]
    stop: asyncio.Event | None


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What only a role of the service says of its worker."""

    at_once: asyncio.Event | None = None
    """Set: give back at once what still runs."""
    sweep: bool = True
    sweep_interval_s: float = PROMOTE_S
    keeper: bool = True
    """Whether leases are renewed by a process of their own."""
    trace: Trace | None = None
    watch: LoopWatch | None = None
    """Watches the event loop of the process; a worker without one has its own."""


USUAL: Final = ServiceOptions()


class Controls(NamedTuple):
    """How a worker that runs is told to stop and looked at."""

    drain: Callable[[], None]
    release: Callable[[], None]
    is_stopping: Callable[[], bool]
    running: Callable[[], Collection[AttemptRun]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """A running attempt of a worker. `worker.running` lists them. `number` is 1 for the first attempt of a job."""

    id: str
    job_id: str
    type: str
    queue: str
    number: int
    started_at: datetime


class Worker:
    """Runs the handlers of one queue. `queue.worker(...)` creates it, and you start it.

    Example:
        worker = queue.worker(concurrency=20, queues=["default"])
        async with worker:                       # starts it; stops it at the end
            print(worker.id, worker.running)

    or `await worker.run()`, which returns when the worker has stopped.
    """

    def __init__(
        self, submitter: Submitter, concurrency: int, options: WorkerOptions, service: ServiceOptions = USUAL
    ) -> None:
        self._submitter = submitter
        self._settings = settings_of(concurrency, options)
        self._options = options
        self._service = service
        self._controls: Controls | None = None
        self._begun = asyncio.Event()
        self._ended: asyncio.Event | None = None
        self._stop_asked = False
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<worker {self.id} {'running' if self.is_running else 'not running'}>"

    @property
    def id(self) -> str:
        """The id of this worker in `job.worker_id`, `attempt.worker_id` and the logs: the name of the host and a UUID.
        Each worker has a new one."""
        return self._settings.worker_id

    @property
    def is_running(self) -> bool:
        """Whether it claims jobs, or finishes its running jobs."""
        return self._ended is not None

    @property
    def running(self) -> list[RunningAttempt]:
        """The attempts whose handlers run now, oldest first.

        Example:
            for attempt in worker.running:
                print(attempt.type, attempt.job_id, attempt.started_at)
        """
        if self._controls is None:
            return []
        now, monotonic = datetime.now(UTC), time.monotonic()
        return [
            RunningAttempt(
                id=attempt.claim.lease.attempt_id,
                job_id=attempt.claim.job.id,
                type=attempt.claim.job.type,
                queue=attempt.claim.job.queue,
                number=attempt.claim.job.attempt_count,
                started_at=now - timedelta(seconds=monotonic - attempt.started),
            )
            for attempt in sorted(self._controls.running(), key=lambda attempt: attempt.started)
        ]

    async def run(self) -> None:
        """Run jobs until `stop()`, one of the `signals`, the `stop` event, or a cancel of this task.

        Opens the queue if it is not open. Running jobs have the grace time to finish. Unfinished jobs go back to the
        queue, and no attempt is charged. Raises InvalidInput if the queue has no job types, and EuterpeError if this
        worker already runs.

        Example:
            await queue.worker(concurrency=20).run()
        """
        from euterpe.queue.run import run_worker  # All that runs jobs; who only submits never loads it.

        core, options = self._submitter.core, self._options
        if self._ended is not None:
            raise EuterpeError(f"worker {self.id} runs already; make another one with queue.worker(...)")
        if not core.handlers.types:
            raise InvalidInput("handlers", "this queue has no job types; import the module that defines them first")
        self._ended = ended = asyncio.Event()
        try:
            await core.open()
            try:
                await run_worker(
                    self._submitter,
                    self._settings,
                    self._service,
                    signals=options.get("signals", ()),
                    stop=options.get("stop"),
                    webhooks=options.get("webhooks", True),
                    telemetry=options.get("telemetry"),
                    started=self._begin,
                )
            finally:
                if core.users > 1:  # Who still uses the queue has all the time in the world.
                    core.shutdown.clear()
                await core.close()
        finally:
            self._controls = self._ended = None
            self._stop_asked = False
            self._begun.clear()
            ended.set()

    async def start(self) -> None:
        """Start the worker in the background, and return when it claims jobs. Raises the error if it cannot start.

        Example:
            await worker.start()
        """
        loop = asyncio.get_running_loop()
        task, begun = loop.create_task(self.run()), loop.create_task(self._begun.wait())
        try:
            await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            begun.cancel()
        self._task = task

    async def stop(self, *, at_once: bool = False) -> None:
        """Claim no more jobs, give running jobs the grace time to finish, and return when the worker has stopped. With
        `at_once=True`, unfinished jobs go back to the queue now. Does nothing if the worker does not run. A handler of
        this worker must not await it, because it would wait for itself.

        If `start` started the worker and it failed, this raises its error.

        Example:
            await worker.stop()
        """
        ended = self._ended
        if ended is not None:
            if self._controls is None:
                self._stop_asked = True
            elif at_once:
                self._controls.release()
            elif not self._controls.is_stopping():  # A second order would not let running jobs finish.
                self._controls.drain()
            await ended.wait()
        task, self._task = self._task, None
        if task is not None:
            await task

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _begin(self, controls: Controls) -> None:
        self._controls = controls
        self._begun.set()
        if self._stop_asked:
            controls.drain()


def settings_of(concurrency: int, options: WorkerOptions) -> WorkerSettings:
    """Checked settings; InvalidInput names the wrong one."""
    if unknown := sorted(set(options) - set(WorkerOptions.__annotations__)):
        known = ", ".join(["concurrency", *WorkerOptions.__annotations__])
        raise InvalidInput(unknown[0], f"is not a setting of a worker; known are {known}")
    batch = options.get("batch", 1000)
    for name, value in (("concurrency", concurrency), ("batch", batch)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
            raise InvalidInput(name, f"{value!r} is not a whole number from 1 to 100000")
    log_lines = options.get("log_lines", LINES_KEPT)
    if isinstance(log_lines, bool) or not isinstance(log_lines, int) or not 0 <= log_lines <= LINES_CEILING:
        raise InvalidInput("log_lines", f"{log_lines!r} is not a whole number from 0 to {LINES_CEILING}")
    requester_share = options.get("requester_share", 0.5)
    if (
        isinstance(requester_share, bool)
        or not isinstance(requester_share, (int, float))
        or not 0 < requester_share <= 1
    ):
        raise InvalidInput("requester_share", f"{requester_share!r} is not a share: above 0, and 1 at most")
    queues = options.get("queues", ("default",))
    if isinstance(queues, str):
        raise InvalidInput("queues", f"must be a list of queue names; write queues=[{queues!r}]")
    if not queues or not all(isinstance(name, str) and name for name in queues):
        raise InvalidInput("queues", "must be a list of at least one queue name")
    lease_ttl_us = parse_duration_us(options.get("lease", "60s"), "lease")
    if lease_ttl_us < SHORTEST_LEASE_US:
        raise InvalidInput("lease", "must be at least 1s: a heartbeat needs time to arrive")
    poll_s = parse_duration_us(options.get("poll", "1s"), "poll") / 1e6
    if poll_s < 0.01:
        raise InvalidInput("poll", "must be at least 10ms")
    return WorkerSettings(
        worker_id=next_worker_id(os.environ),
        queues=tuple(queues),
        concurrency=concurrency,
        batch=batch,
        lease_ttl_us=lease_ttl_us,
        poll_s=poll_s,
        grace_s=parse_duration_us(options.get("grace", "30s"), "grace") / 1e6,
        breaker=breaker_policy_of(options.get("circuit_breaker", True)),
        requester_share=requester_share,
        log_lines=log_lines,
    )
