"""The queue: submit, look, steer, and run. One object, one URL; every engine behaves the same."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload
from weakref import WeakKeyDictionary

from msgspec import UNSET, UnsetType

from euterpe.backends.engines import Backend, connect
from euterpe.model.batch import Draft, Receipt, Unit, drafts_of
from euterpe.model.changes import Changes
from euterpe.model.dependency import Dependency
from euterpe.model.document import rfc3339
from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.model.exchange import Verdict
from euterpe.model.job import Attempt, Claim, Job
from euterpe.model.priority import Priority, parse_priority
from euterpe.model.state import State
from euterpe.model.submission import PAYLOAD_CEILING, PAYLOAD_LIMIT, Submission, check, check_key, check_payload
from euterpe.model.views import Page, Stats
from euterpe.ports import Clock
from euterpe.queue.criteria import pause_target, search_of
from euterpe.queue.cron import Cron, add_cron
from euterpe.queue.handle import JobHandle
from euterpe.queue.job_type import Call, CronDecorator, Decorator, JobType, register, with_window
from euterpe.queue.options import Options, encode_payload, submission_of
from euterpe.queue.result_wait import Watching
from euterpe.queue.run import run_worker, traced
from euterpe.queue.sync import SyncQueue
from euterpe.queue.workflow import Workflow
from euterpe.runtime.shutdown import ShutdownDeadline
from euterpe.worker.context import Context
from euterpe.worker.handlers import Handlers

P = ParamSpec("P")
R = TypeVar("R")


class Queue:
    """A durable job queue on the database that `url` names."""

    def __init__(
        self,
        url: str,
        *,
        payload_limit: int = PAYLOAD_LIMIT,
        clock: Clock | None = None,
        transport: str | None = None,
        token: str | None = None,
        idempotency_window: DurationLike | None = None,
    ) -> None:
        """`transport`: the URL of a Redis whose streams wake the workers of other processes, beside a database.
        `token`: the API key, where `url` is a control plane (`http://...`).
        `idempotency_window`: how long a key is remembered, where neither the job type nor the submission says it."""
        if not 1 <= payload_limit <= PAYLOAD_CEILING:
            raise InvalidInput("payload_limit", f"{payload_limit} is not between 1 and {PAYLOAD_CEILING} bytes")
        self.url = url
        self.payload_limit = payload_limit
        if idempotency_window is not None:
            parse_duration_us(idempotency_window, "idempotency_window")
        self.idempotency_window = idempotency_window
        self.handlers = Handlers()
        self.jobtypes: dict[str, JobType[..., Any]] = {}
        self.crons: list[Cron] = []
        self._backend: Backend = connect(
            url, clock=clock, payload_limit=payload_limit, transport=transport, token=token
        )
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        # A queue lives at the top of a module and may see many event loops, one after the other.
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._watching = Watching()
        self.shutdown = ShutdownDeadline()

    # --- life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Queue:
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
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._opening[asyncio.get_running_loop()]:
            self._users -= 1
            if not self._users:
                try:
                    await self._backend.close(self.shutdown)
                finally:
                    self._loop = None
                    self.shutdown.clear()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Where the queue is open, if it is."""
        return self._loop if self._users else None

    @property
    def store(self) -> Any:
        """The engine underneath, for those who need it."""
        return self._backend.store

    @property
    def wakeups(self) -> Any:
        return self._backend.wakeups

    @property
    def backend_url(self) -> str:
        """The URL by which another process of this machine reaches the same database."""
        return self._backend.url

    def exchange_backend(self, backend: Backend) -> Backend:
        """Put this queue on another database while it is closed; returns the one it had. For `euterpe.testing`."""
        if self._users:
            raise EuterpeError("this queue is open; its database can be exchanged only before `async with queue:`")
        before, self._backend = self._backend, backend
        return before

    # --- job types ----------------------------------------------------------------------------------

    @overload
    def job(self, type: str | None = None, /, *, process: bool = False, **options: Unpack[Options]) -> Decorator: ...
    @overload
    def job(self, type: Callable[Concatenate[Context, P], Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def job(self, type: Callable[Concatenate[Context, P], R], /) -> JobType[P, R]: ...
    @overload
    def job(self, type: Callable[P, Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def job(self, type: Callable[P, R], /) -> JobType[P, R]: ...

    def job(self, type: Any = None, /, *, process: bool = False, **options: Unpack[Options]) -> Any:
        """Make a function a job type. Options are the defaults of its submissions; `timeout` also bounds its runs."""
        if type is not None and not isinstance(type, str):
            return self.job()(type)
        return Decorator(lambda function: register(self, type, function, process, options))

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        type: str | None = None,
        name: str | None = None,
        **options: Unpack[Options],
    ) -> CronDecorator:
        """Submit this job type at every tick of a cron expression, once over any number of workers. A `name` tells two
        crons with one expression on one job type apart."""

        def decorate(function: Any) -> JobType[..., Any]:
            if isinstance(function, JobType):
                if type is not None:
                    raise InvalidInput("type", f"the job type is named {function.type!r} already")
                jobtype, extra = function, options
            else:
                jobtype, extra = self.job(type, **options)(function), {}
            add_cron(self.crons, Cron(expression, tz, jobtype, extra, name))
            return jobtype

        return CronDecorator(decorate)

    # --- submit -------------------------------------------------------------------------------------

    @overload
    async def submit(self, what: Call[R], /, *, connection: Any = None, **options: Unpack[Options]) -> JobHandle[R]: ...
    @overload
    async def submit(
        self, what: str, payload: Any = None, /, *, connection: Any = None, **options: Unpack[Options]
    ) -> JobHandle[Any]: ...

    async def submit(
        self, what: Any, payload: Any = None, /, *, connection: Any = None, **options: Unpack[Options]
    ) -> JobHandle[Any]:
        """Store a job: a call made by `with_args`, or a type name with its payload."""
        return (await self._store(self.make_single(what, payload, options), connection))[0]

    async def submit_call(self, call: Call[Any], connection: Any, options: Mapping[str, Any]) -> JobHandle[Any]:
        """What `render.submit(...)` comes down to."""
        return await self.submit(call, connection=connection, **cast(Options, options))

    async def submit_many(
        self, calls: Sequence[Call[Any] | tuple[str, Any]], *, connection: Any = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """Store them all, or none. Options hold for each of them; `idempotency_key` is the key of the whole."""
        unit = self.make_unit(calls, options)
        return await self._store(unit, connection) if unit.drafts else []

    def submit_blocking(self, unit: Unit, connection: Any) -> list[JobHandle[Any]]:
        """Into the transaction of a blocking connection, from code that cannot await."""
        receipts = self.store.submit_unit_on_sync(unit, connection, self._backend.channel)
        return [self.handle_of(receipt) for receipt in receipts]

    async def _store(self, unit: Unit, connection: Any) -> list[JobHandle[Any]]:
        if unit.key is not None:
            check_key(unit.key)
        if connection is None:
            receipts = await self.store.submit_unit(unit)
        else:
            receipts = await self.store.submit_unit_on(unit, connection, self._backend.channel)
        return [self.handle_of(receipt) for receipt in receipts]

    def workflow(self, *, connection: Any = None, **options: Unpack[Options]) -> Workflow:
        """`async with queue.workflow() as flow:` a DAG that is stored whole, or not at all.

        Options are defaults for its jobs; `idempotency_key` is the key of the whole."""
        defaults: dict[str, Any] = dict(options)
        key = defaults.pop("idempotency_key", None)
        return Workflow(self, defaults, key, connection)

    async def chain(self, calls: Sequence[Call[Any]], **options: Unpack[Options]) -> list[JobHandle[Any]]:
        """One after the other; when one fails, the rest is cancelled."""
        async with self.workflow(**options) as flow:
            last: list[Any] = []
            for call in calls:
                extra: Options = {"dependency": Dependency.CHAIN} if last else {}
                last = [flow.add(call, after=last, options=extra)]
        return [node.handle for node in flow.nodes]

    async def fan_out(
        self, calls: Sequence[Call[Any]], *, then: Call[Any] | None = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """All in parallel; `then` runs when every one has completed, with whatever they spawned. Returns the jobs,
        `then` last."""
        async with self.workflow(**options) as flow:
            nodes = [flow.add(call) for call in calls]
            if then is not None:
                flow.add(then, after=nodes, options={"dependency": Dependency.FAN_IN})
        return [node.handle for node in flow.nodes]

    # --- look and steer -----------------------------------------------------------------------------

    async def get(self, job_id: str) -> Job:
        return cast(Job, await self.store.get(job_id))

    async def attempts(self, job_id: str) -> list[Attempt]:
        return cast(list[Attempt], await self.store.attempts(job_id))

    async def search(self, **criteria: Any) -> Page:
        """Newest first: state=, type=, queue=, tag=("team", "a"), cursor=, limit=."""
        return cast(Page, await self.store.search(search_of(criteria)))

    async def cancel(self, job_id: str, *, force: bool = False) -> State:
        """Not running: at once. Running: the handler is asked to stop; `force` takes the job away from it."""
        return cast(State, await self.store.cancel(job_id, force=force))

    async def retry(self, job_id: str) -> JobHandle[Any]:
        """Run an ended job again: a failed one with budget left as itself, any other as a new job."""
        job: Job = await self.store.retry(job_id)
        self.wakeups.announce([job.queue])
        return self.handle_of_job(job)

    async def dead_letter(self, job_id: str) -> State:
        """Send a failed job to the dead letter: nothing will mend it, and nobody should retry it by mistake."""
        return cast(State, await self.store.bury(job_id))

    async def update(
        self,
        job_id: str,
        *,
        priority: Priority | int | str | UnsetType = UNSET,
        tags: Mapping[str, str] | UnsetType | None = UNSET,
        correlation_id: str | UnsetType | None = UNSET,
        callback_url: str | UnsetType | None = UNSET,
    ) -> Job:
        """Change what a job is called by, and while it waits how urgent it is; None takes a value away."""
        changes = Changes(
            priority=UNSET if priority is UNSET else int(parse_priority(priority)),
            tags=dict(tags) if isinstance(tags, Mapping) else tags,
            correlation_id=correlation_id,
            callback_url=callback_url,
        )
        return cast(Job, await self.store.update(job_id, changes))

    async def pause(self, *, queue: str | None = None, type: str | None = None) -> None:
        """No worker anywhere claims from this queue, or this type, until `resume`."""
        await self.store.pause(*pause_target(queue, type))

    async def resume(self, *, queue: str | None = None, type: str | None = None) -> None:
        await self.store.resume(*pause_target(queue, type))
        waiting = [queue] if queue is not None else {depth.queue for depth in await self.store.depths()}
        self.wakeups.announce(waiting)

    async def stats(self) -> Stats:
        return cast(Stats, await self.store.stats())

    # --- run ----------------------------------------------------------------------------------------

    async def work(
        self,
        concurrency: int = 100,
        *,
        queues: Sequence[str] = ("default",),
        lease: DurationLike = "60s",
        grace: DurationLike = "30s",
        poll: DurationLike = "2s",
        batch: int = 500,
        webhooks: bool = True,
        signals: Sequence[signal.Signals] = (),
        stop: asyncio.Event | None = None,
        **tuning: Any,
    ) -> None:
        """Run this queue's handlers until `stop` is set, one of `signals` comes, or the task is cancelled.

        The callbacks of its jobs are delivered too; `webhooks=False` leaves them to other processes."""
        if isinstance(queues, str):
            raise InvalidInput("queues", f"must be a list of queue names; write queues=[{queues!r}]")
        async with self, traced(tuning.pop("trace", None), self.store) as trace:
            try:
                await run_worker(
                    self,
                    trace=trace,
                    concurrency=concurrency,
                    queues=tuple(queues),
                    lease_ttl_us=parse_duration_us(lease, "lease"),
                    grace_s=parse_duration_us(grace, "grace") / 1e6,
                    poll_s=parse_duration_us(poll, "poll") / 1e6,
                    batch=batch,
                    webhooks=webhooks,
                    signals=signals,
                    stop=stop,
                    **tuning,
                )
            finally:
                if self._users > 1:  # Who still uses the queue has all the time in the world.
                    self.shutdown.clear()

    @cached_property
    def sync(self) -> SyncQueue:
        """The same for code without an event loop: `queue.sync.submit(...)`."""
        return SyncQueue(self)

    # --- for the other files of this room -------------------------------------------------------------

    def call_of(self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """(call or type name, payload): what `make_submission` takes."""
        if isinstance(what, Call):
            if args or kwargs:
                raise InvalidInput("arguments", "are already part of the call made by with_args")
            return what, None
        if isinstance(what, JobType):
            return what.with_args(*args, **kwargs), None
        if isinstance(what, str):
            if len(args) > 1 or (args and kwargs):
                raise InvalidInput("arguments", f"of {what!r}: give one payload, or named arguments")
            return what, (args[0] if args else kwargs)
        raise InvalidInput("job", f"{what!r} is not a job type, a call or a type name")

    def make_submission(self, what: Any, payload: Any = None, /, **options: Any) -> Submission:
        """A checked submission of a call, a job type without arguments, or a type name with a payload."""
        if isinstance(what, JobType):
            what = what.with_args()
        if isinstance(what, Call):
            if payload is not None:
                raise InvalidInput("payload", "is already part of the call made by with_args")
            return what.submission(options, self.payload_limit)
        if not isinstance(what, str):
            raise InvalidInput("job", f"{what!r} is not a job type, a call or a type name")
        jobtype = self.jobtypes.get(what)
        encoded, form = encode_payload(payload) if jobtype is None else jobtype.encode_payload(payload)
        defaults: Options = with_window(self, {}) if jobtype is None else jobtype.defaults
        submission = submission_of(what, encoded, form, {**defaults, **options})
        check(submission, self.payload_limit)
        return submission

    def make_single(self, what: Any, payload: Any, options: Mapping[str, Any]) -> Unit:
        return Unit(drafts_of([self.make_submission(what, payload, **options)]))

    def make_unit(self, calls: Sequence[Any], options: Mapping[str, Any]) -> Unit:
        rest = dict(options)
        key = rest.pop("idempotency_key", None)
        return Unit(drafts_of(list(self._submissions(calls, rest))), key=key)

    def _submissions(self, calls: Sequence[Any], options: Mapping[str, Any]) -> Iterator[Submission]:
        """What is said of one call is read and checked once for all that follow and are like it."""
        known: tuple[Call[Any], Submission] | None = None
        for call in calls:
            if isinstance(call, Call) and known is not None and call.is_like(known[0]):
                check_payload(call.payload, self.payload_limit)
                yield known[1].with_payload(call.payload)
                continue
            submission = self.make_submission(*(call if isinstance(call, tuple) else (call, None)), **options)
            known = (call, submission) if isinstance(call, Call) else None
            yield submission

    async def store_drafts(self, drafts: Sequence[Draft], key: str | None, connection: Any) -> list[JobHandle[Any]]:
        return await self._store(Unit(tuple(drafts), key=key), connection) if drafts else []

    async def spawn(self, claim: Claim, submissions: Sequence[Submission]) -> list[str]:
        receipts: list[Receipt] = await self.store.spawn(claim.lease, submissions)
        return [receipt.job_id for receipt in receipts]

    def watching(self, job_id: str) -> AbstractContextManager[asyncio.Event]:
        """An event that a worker of this very queue sets when the job is ended: no poll to wait for."""
        return self._watching.watch(job_id)

    def settled(self, job_id: str, verdict: Verdict) -> None:
        self._watching.settled(job_id, verdict)

    def handle_of(self, receipt: Receipt) -> JobHandle[Any]:
        return JobHandle(
            self,
            receipt.job_id,
            receipt.type,
            receipt.state,
            receipt.created_at,
            replayed=receipt.replayed,
            returns=self._returns(receipt.type),
        )

    def handle_of_job(self, job: Job) -> JobHandle[Any]:
        created_at = rfc3339(job.created_at) or ""
        return JobHandle(self, job.id, job.type, job.state, created_at, replayed=False, returns=self._returns(job.type))

    def _returns(self, job_type: str) -> Any:
        jobtype = self.jobtypes.get(job_type)
        return jobtype.handler.returns if jobtype is not None else Any
