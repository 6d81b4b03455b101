"""Test code that uses a queue, without a server.

    async with testing.queue(app.queue):  # the same queue on a temporary SQLite database, with a frozen clock
        await app.sign_up("ada@example.org")
        testing.assert_submitted(app.queue, "mail.welcome", to="ada@example.org")
        await testing.drain(app.queue)  # runs all jobs, retries and delays included

    assert await testing.run(app.render, report_id=7) == {"pages": 3}

The engine and the execution of an attempt are the real ones. Only the clock is frozen, and handlers run one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, overload
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from euterpe.backends.engines import MEMORY_URL, connect
from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed, Outcome, Success
from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import EuterpeError, InvalidInput, JobFailed, StaleLease
from euterpe.model.extras import needing
from euterpe.model.failures.failure import Category
from euterpe.model.job import Claim, JobRow
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.submission import RESULT_LIMIT
from euterpe.queue.core import QueueCore
from euterpe.queue.definition.job_type import Call, JobType, definition_of
from euterpe.queue.job import Job, job_of
from euterpe.queue.queue import Queue, core_of, submitter_of
from euterpe.queue.submitting.submitter import Submitter
from euterpe.stores.sql.sqlite.blocking_reads import all_jobs
from euterpe.stores.sql.store import SqlStore
from euterpe.worker.attempt import AttemptRun, AttemptServices, HandlerInterruption
from euterpe.worker.context import NO_STATE, Context
from euterpe.worker.execution.threads import Threads
from euterpe.worker.handling.handlers import Handler, Handlers, encode_result
from euterpe.worker.handling.hooks import AttemptHooks, Hooks
from euterpe.worker.handling.json_types import builtins_of
from euterpe.worker.handling.lifespan import opened
from euterpe.worker.reporting.completions import HandlerCompletions
from euterpe.worker.reporting.reporter import WorkerReporter

__all__ = [
    "FrozenClock",
    "assert_not_submitted",
    "assert_submitted",
    "clock",
    "drain",
    "queue",
    "run",
    "submitted",
    "sync_queue",
]

P = ParamSpec("P")
R = TypeVar("R")

LEASE_US: Final = 3650 * 86_400 * 1_000_000
"""Time is moved by hand here, and no jump of it may take a running job away."""


class FrozenClock:
    """A clock that moves only when you advance it. It starts at `at`, or at the current second."""

    def __init__(self, at: datetime | None = None) -> None:
        start = at or datetime.now(UTC).replace(microsecond=0)
        self._now_us = round(start.timestamp() * 1_000_000)

    def __call__(self) -> int:
        return self._now_us

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._now_us / 1_000_000, UTC)

    def advance(self, by: DurationLike) -> None:
        """Move the clock: `clock.advance("5m")`. The next `drain` runs the jobs that are due then."""
        self.advance_us(parse_duration_us(by, "by"))

    def advance_us(self, by_us: int) -> None:
        self._now_us += by_us

    def __repr__(self) -> str:
        return f"<frozen clock at {self.now.isoformat()}>"


_clocks: WeakKeyDictionary[QueueCore, FrozenClock] = WeakKeyDictionary()


@asynccontextmanager
async def queue(subject: Queue, *, at: datetime | None = None, on: str | None = None) -> AsyncIterator[Queue]:
    """Open the queue on an empty SQLite database with a frozen clock. Afterwards the queue is as before.

    `on`: the URL of your own Postgres, for code that submits in its own transaction (`connection=`). The tables are
    then in a schema of this test, which is dropped at the end."""
    async with AsyncExitStack() as stack:
        url = MEMORY_URL if on is None else await stack.enter_async_context(_schema_in(on))
        with _on_trial(core_of(subject), at, url):
            async with subject:
                yield subject


@asynccontextmanager
async def _schema_in(url: str) -> AsyncIterator[str]:
    if urlsplit(url).scheme not in ("postgres", "postgresql"):
        raise InvalidInput("on", "must be the URL of a Postgres; SQLite needs none")
    with needing("a test on Postgres", "postgres"):
        from euterpe.stores.sql.postgres.throwaway import throwaway_schema
    async with throwaway_schema(url) as place:
        yield place


@contextmanager
def sync_queue(subject: Queue, *, at: datetime | None = None) -> Iterator[Queue]:
    """Do the same as `queue` for tests without an event loop. The code under test uses `queue.sync`. To run the jobs,
    call `queue.sync.run(testing.drain(queue))`."""
    with _on_trial(core_of(subject), at):
        try:
            yield subject
        finally:
            subject.sync.close()


@contextmanager
def _on_trial(core: QueueCore, at: datetime | None, url: str = MEMORY_URL) -> Iterator[None]:
    frozen = FrozenClock(at)
    before = core.exchange_backend(connect(url, clock=frozen, payload_limit=core.payload_limit))
    _clocks[core] = frozen
    try:
        yield
    finally:
        del _clocks[core]
        core.exchange_backend(before)


def clock(subject: Queue) -> FrozenClock:
    """Return the clock of a queue under test."""
    found = _clocks.get(core_of(subject))
    if found is None:
        raise EuterpeError("this queue is not under test; open it by `async with testing.queue(queue):`")
    return found


# --- what was submitted ---------------------------------------------------------------------------------------------


def submitted(subject: Queue, what: str | JobType[..., Any] | None = None, /, **arguments: object) -> list[Job]:
    """Return every job of this type whose payload has these arguments, oldest first, in any state."""
    clock(subject)
    job_type = what.type if isinstance(what, JobType) else what
    expected = builtins_of(arguments)
    found = [row for row in _all_jobs(subject) if job_type in (None, row.type) and _has(row, expected)]
    return [job_of(row) for row in found]


def assert_submitted(subject: Queue, what: str | JobType[..., Any], /, **arguments: object) -> Job:
    """Return the latest such job, for more checks (`.priority`, `.tags`, `.run_at`, ...). Raise AssertionError if there
    is none."""
    found = submitted(subject, what, **arguments)
    if not found:
        raise AssertionError(f"no job {_shown(what, arguments)} was submitted; {_seen(subject)}")
    return found[-1]


def assert_not_submitted(subject: Queue, what: str | JobType[..., Any] | None = None, /, **arguments: object) -> None:
    """Raise AssertionError if such a job was submitted. The message lists the submitted jobs."""
    found = submitted(subject, what, **arguments)
    if found:
        raise AssertionError(f"{len(found)} jobs {_shown(what, arguments)} were submitted; {_seen(subject)}")


def _all_jobs(subject: Queue) -> list[JobRow]:
    """Read past the event loop, so that a test can assert without `await`."""
    core = core_of(subject)
    store = core.store
    assert isinstance(store, SqlStore)
    if store.engine.family == "sqlite":
        return all_jobs(store)
    from euterpe.stores.sql.postgres.throwaway import all_jobs as all_jobs_of_postgres

    return all_jobs_of_postgres(core.backend_url)


def _has(row: JobRow, expected: dict[str, object]) -> bool:
    if not expected:
        return True
    if row.payload_format == "bytes":
        return expected == {"payload": row.payload}
    payload = msgspec.json.decode(row.payload)
    return isinstance(payload, dict) and all(
        name in payload and payload[name] == value for name, value in expected.items()
    )


def _shown(what: str | JobType[..., Any] | None, arguments: dict[str, object]) -> str:
    name = what.type if isinstance(what, JobType) else what or "of any type"
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _seen(subject: Queue) -> str:
    jobs = _all_jobs(subject)
    if not jobs:
        return "nothing was"
    lines = [f"  {job.type} {job.payload[:200].decode(errors='replace')} ({job.state})" for job in jobs[-20:]]
    return "these were:\n" + "\n".join(lines)


# --- running --------------------------------------------------------------------------------------------------------


async def drain(subject: Queue, *, strict: bool = False, limit: int = 10_000) -> list[Job]:
    """Run every job, one by one and in order, until none is left. It does not wait for delays and retries, but moves
    the clock to the next one. Returns the job after each of its attempts.

    `strict` raises JobFailed for the first job that does not complete. Jobs of an unknown or paused type stay."""
    frozen = clock(subject)
    ran: list[Job] = []
    async with _Bench(submitter_of(subject)) as bench:
        while True:
            await core_of(subject).store.sweeps.urgent()
            claim = await bench.claim()
            if claim is not None:
                if len(ran) >= limit:
                    raise AssertionError(
                        f"drain ran {limit} attempts and there is still more; does a job spawn itself?"
                    )
                job = await bench.execute(claim)
                ran.append(job)
                if strict and job.state in TERMINAL and job.state is not State.COMPLETED:
                    raise JobFailed(job.id, job.state, job.error)
                continue
            due_us = await bench.next_due_in_us()
            if due_us is None:
                return ran
            frozen.advance_us(max(1, due_us))


@overload
async def run(what: JobType[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
@overload
async def run(what: Call[R], /) -> R: ...


async def run(what: JobType[..., Any] | Call[Any], /, *args: object, **kwargs: object) -> object:
    """Run one handler now, with checked arguments and a real Context. Returns what the handler returns, and raises what
    it raises. On a queue under test you can look at its progress and children afterwards; otherwise they are
    dropped."""
    call = what if isinstance(what, Call) else what.with_args(*args, **kwargs)
    submitter = definition_of(call).submitter
    if not isinstance(submitter, Submitter):
        raise EuterpeError(f"{what!r} belongs to no queue")
    async with AsyncExitStack() as stack:
        if submitter.core not in _clocks:
            stack.enter_context(_on_trial(submitter.core, None))
            await submitter.core.open()
            stack.push_async_callback(submitter.core.close)
        bench = await stack.enter_async_context(_Bench(submitter))
        now = call.with_options(priority="critical", delay=None, run_at=None, depends_on=None)
        job = await submitter.submit_call(now, None, {})
        claim = await bench.claim(job.type)
        if claim is None or claim.job.id != job.id:
            raise EuterpeError(f"{job.type} cannot run: an older job of its type waits, or the type is paused")
        return await bench.call(claim)


def _with_no_other_version(outcome: Outcome | None) -> Outcome | None:
    """In a test nobody else will come: arguments that do not fit the handler are the job's end."""
    if isinstance(outcome, Failed) and outcome.failure.unfit:
        return Failed(msgspec.structs.replace(outcome.failure, category=Category.PERMANENT, unfit=False))
    return outcome


class _Bench:
    """Where claims of a queue under test are executed, one at a time."""

    def __init__(self, submitter: Submitter) -> None:
        self._core = core = submitter.core
        self._store = core.store
        self._threads = Threads()
        self._settling = HandlerCompletions(core.store, core.store, core.handlers, RESULT_LIMIT)
        self._reporter = WorkerReporter(
            asyncio.get_running_loop(),
            self._advance,
            core.spawn,
            submitter.make_submission,
            self._settling,
            charge=core.charge,
        )
        reporter = self._reporter
        self._stack = AsyncExitStack()
        self._hooks = AttemptHooks(Hooks(), Handlers(), NO_STATE)
        self._services = AttemptServices(
            self._threads.call,
            self._in_thread,
            reporter.has_progress,
            reporter.delivered,
            reporter.is_spawning,
            RESULT_LIMIT,
            reporter.outcome_of,
        )

    async def __aenter__(self) -> _Bench:
        core = self._core
        self._stack.callback(self._threads.close)
        self._hooks = await self._stack.enter_async_context(opened(core.hooks, core.handlers, core.shutdown))
        self._reporter.state = self._hooks.state
        self._services = msgspec.structs.replace(self._services, around=self._hooks.around)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def claim(self, job_type: str | None = None) -> Claim | None:
        """The most urgent job of any queue."""
        types = self._core.handlers.types if job_type is None else (job_type,)
        waiting = {depth.queue for depth in await self._store.depths()}
        request = ClaimRequest(
            worker_id="testing", limit=1, queues=tuple(sorted(waiting)), types=types, lease_ttl_us=LEASE_US
        )
        claims: list[Claim] = await self._store.claim(request)
        return claims[0] if claims else None

    async def next_due_in_us(self) -> int | None:
        due: int | None = await self._store.sweeps.next_due_in_us()
        return due

    async def execute(self, claim: Claim) -> Job:
        """The real execution of an attempt, and its settlement; the job as it is then."""
        handler = self._core.handlers[claim.job.type]
        loop = asyncio.get_running_loop()
        timeout_us = min(claim.job.execution_timeout_us, handler.timeout_us or claim.job.execution_timeout_us)
        stops_at = loop.time() + timeout_us / 1_000_000
        attempt = AttemptRun(claim, handler, Context(claim, self._reporter, stops_at), loop.time(), stops_at, 0)
        attempt.task = loop.create_task(attempt.run(self._services))
        alarm = loop.call_at(stops_at, attempt.interrupt, HandlerInterruption.TIMEOUT)
        await attempt.task
        alarm.cancel()
        attempt.context.close()
        self._reporter.forget(claim)
        attempt.outcome = _with_no_other_version(attempt.outcome)
        if attempt.outcome is not None:
            (verdict,) = await self._settling.settle([attempt.finished()])
            self._core.settled(claim.job.id, verdict)
        return job_of(await self._core.get(claim.job.id))

    async def call(self, claim: Claim) -> object:
        """The handler itself: its own return value, its own exception."""
        handler = self._core.handlers[claim.job.type]
        deadline = asyncio.get_running_loop().time() + claim.job.execution_timeout_us / 1_000_000
        context = Context(claim, self._reporter, deadline)
        try:
            value = await self._hooks.through(context, partial(self._called, handler, claim, context))
            await self._reporter.delivered(claim)
            outcome = await self._reporter.outcome_of(claim, Success(encode_result(handler, value, RESULT_LIMIT)))
            if isinstance(outcome, Failed):
                raise EuterpeError(outcome.failure.message)
        except BaseException as error:
            await self._hooks.report_error(context, error)
            await self._store.cancel(claim.job.id, force=True)  # It shall not be tried again by a later drain.
            raise
        finally:
            context.close()
        if outcome is not None:
            await self._settling.settle([Report(claim, outcome)])
        return value

    async def _called(self, handler: Handler, claim: Claim, context: Context) -> object:
        args = (context,) if handler.takes_context else ()
        arguments = {**handler.arguments_of(claim.job), **self._hooks.injected(handler)}
        function = partial(handler.function, *args, **arguments)
        return await function() if handler.mode == "async" else await self._threads.call(function)

    async def _in_thread(self, handler: Handler, claim: Claim, context: Context) -> object:
        """A test wants to step into a process handler, and to patch what it calls."""
        args = (context,) if handler.takes_context else ()
        return await self._threads.call(partial(handler.function, *args, **handler.arguments_of(claim.job)))

    async def _advance(self, update: ProgressUpdate) -> None:
        (alive,) = await self._store.update_progress([update])
        if not alive:
            raise StaleLease(update.claim.job.id, update.claim.lease.claim_version)
