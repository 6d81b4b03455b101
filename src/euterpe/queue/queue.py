"""The queue: submit, look, steer, and run. One object, one URL; every engine behaves the same."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from euterpe.compose import Backend, connect
from euterpe.duration import DurationLike, parse_duration_us
from euterpe.model.dependency import Dependency
from euterpe.model.errors import InvalidInput
from euterpe.model.job import Attempt, Claim, Job
from euterpe.model.state import State
from euterpe.model.submission import EXECUTION_TIMEOUT_US, PAYLOAD_LIMIT, Submission, check
from euterpe.ports import Clock
from euterpe.queue.handle import JobHandle
from euterpe.queue.jobtype import Call, JobType
from euterpe.queue.options import Options, encode_payload, submission_of
from euterpe.queue.running import run_worker
from euterpe.queue.schedule import Cron
from euterpe.queue.workflow import Workflow
from euterpe.store.reading import Page, Search, Stats
from euterpe.store.units import Draft, Receipt, Unit, drafts_of
from euterpe.worker.context import Context
from euterpe.worker.handlers import Handlers, handler_of

P = ParamSpec("P")
R = TypeVar("R")


class Queue:
    """A durable job queue on the database that `url` names."""

    def __init__(self, url: str, *, payload_limit: int = PAYLOAD_LIMIT, clock: Clock | None = None) -> None:
        self.url = url
        self.handlers = Handlers()
        self.jobtypes: dict[str, JobType[..., Any]] = {}
        self.crons: list[Cron] = []
        self._clock = clock
        self._payload_limit = payload_limit
        self._backend: Backend = connect(url, clock=clock, payload_limit=payload_limit)
        self._opened = 0
        self._watched: dict[str, asyncio.Event] = {}

    # --- life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Queue:
        if self._opened == 0:
            await self._backend.open()
        self._opened += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened -= 1
        if self._opened == 0:
            await self._backend.close()

    @property
    def store(self) -> Any:
        """The engine underneath, for those who need it."""
        return self._backend.store

    @property
    def wakeups(self) -> Any:
        return self._backend.wakeups

    # --- job types ----------------------------------------------------------------------------------

    @overload
    def job(self, type: str | None = None, /, *, process: bool = False, **options: Unpack[Options]) -> _Decorator: ...
    @overload
    def job(self, type: Callable[Concatenate[Context, P], Awaitable[R]], /) -> JobType[P, R]: ...

    def job(self, type: Any = None, /, *, process: bool = False, **options: Unpack[Options]) -> Any:
        """Make a function a job type. Options are the defaults of its submissions; `timeout` also bounds its runs."""
        if callable(type):
            return self.job()(type)

        def register(function: Callable[..., Any]) -> JobType[..., Any]:
            name = type or f"{function.__module__}.{function.__qualname__}"
            return self._register(name, function, process, options)

        return register

    def _register(self, name: str, function: Callable[..., Any], process: bool, options: Options) -> JobType[..., Any]:
        timeout_us = None
        if options.get("timeout") is not None:
            timeout_us = parse_duration_us(options["timeout"], "timeout")
            if timeout_us > EXECUTION_TIMEOUT_US:
                raise InvalidInput("timeout", "a handler may ask for less than the system's 30 minutes, never for more")
        stages = tuple(options["stages"]) if "stages" in options else None
        handler = handler_of(name, function, process=process, timeout_us=timeout_us, stages=stages)
        self.handlers.add(handler)
        defaults = dict(options)
        if "concurrency_limit" in defaults and "concurrency_key" not in defaults:
            defaults["concurrency_key"] = f"type:{name}"
        jobtype: JobType[..., Any] = JobType(self, handler, cast(Options, defaults))
        check(jobtype_probe(jobtype), self._payload_limit)
        self.jobtypes[name] = jobtype
        return jobtype

    def cron(self, expression: str, *, tz: str = "UTC", type: str | None = None, **options: Unpack[Options]) -> Any:
        """Submit this job type at every tick of a cron expression, once over any number of workers."""

        def register(function: Any) -> JobType[..., Any]:
            jobtype = function if isinstance(function, JobType) else self.job(type, **options)(function)
            self.crons.append(Cron(expression, tz, jobtype))
            return jobtype

        return register

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
        return (await self._submit([self.make_submission(what, payload, **options)], connection))[0]

    async def submit_call(self, call: Call[Any], connection: Any, options: Mapping[str, Any]) -> JobHandle[Any]:
        """What `render.submit(...)` comes down to."""
        return (await self._submit([self.make_submission(call, None, **options)], connection))[0]

    async def _submit(self, submissions: Sequence[Submission], connection: Any) -> list[JobHandle[Any]]:
        unit = Unit(drafts_of(submissions))
        if connection is None:
            receipts = await self.store.submit_unit(unit)
        else:
            receipts = await self.store.submit_unit_on(unit, connection)
        return [self.handle_of(receipt) for receipt in receipts]

    async def submit_many(
        self, calls: Sequence[Call[Any] | tuple[str, Any]], *, connection: Any = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """Store them all, or none."""
        if not calls:
            return []
        submissions = [
            self.make_submission(*(call if isinstance(call, tuple) else (call, None)), **options) for call in calls
        ]
        return await self._submit(submissions, connection)

    def workflow(self, **options: Unpack[Options]) -> Workflow:
        """`async with queue.workflow() as flow:` a DAG that is stored whole, or not at all.

        Options are defaults for its jobs; `idempotency_key` is the key of the whole."""
        defaults: dict[str, Any] = dict(options)
        key = defaults.pop("idempotency_key", None)
        return Workflow(self, defaults, key)

    async def chain(self, calls: Sequence[Call[Any]], **options: Unpack[Options]) -> list[JobHandle[Any]]:
        """One after the other; when one fails, the rest is cancelled."""
        async with self.workflow(**options) as flow:
            last: list[Any] = []
            for call in calls:
                extra: Options = {"dependency": Dependency.CHAIN} if last else {}
                last = [flow.add(call, after=last, options=extra)]
        return [cast(JobHandle[Any], node.handle) for node in flow.nodes]

    async def fan_out(
        self, calls: Sequence[Call[Any]], *, then: Call[Any] | None = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """All in parallel; `then` runs when every one has completed. Returns the jobs, `then` last."""
        async with self.workflow(**options) as flow:
            nodes = [flow.add(call) for call in calls]
            if then is not None:
                flow.add(then, after=nodes, options={"dependency": Dependency.FAN_IN})
        return [cast(JobHandle[Any], node.handle) for node in flow.nodes]

    # --- look and steer -----------------------------------------------------------------------------

    async def get(self, job_id: str) -> Job:
        return cast(Job, await self.store.get(job_id))

    async def attempts(self, job_id: str) -> list[Attempt]:
        return cast(list[Attempt], await self.store.attempts(job_id))

    async def search(self, **criteria: Any) -> Page:
        """Newest first: state=, type=, queue=, tag=("team", "a"), cursor=, limit=."""
        return cast(Page, await self.store.search(Search(**criteria)))

    async def cancel(self, job_id: str, *, force: bool = False) -> State:
        """Not running: at once. Running: the handler is asked to stop; `force` takes the job away from it."""
        return cast(State, await self.store.cancel(job_id, force=force))

    async def retry(self, job_id: str) -> JobHandle[Any]:
        """Run an ended job again: a failed one with budget left as itself, any other as a new job."""
        job: Job = await self.store.retry(job_id)
        return JobHandle(self, job.id, job.type, job.state, "", replayed=False)

    async def pause(self, *, queue: str | None = None, type: str | None = None) -> None:
        """No worker anywhere claims from this queue, or this type, until `resume`."""
        await self.store.pause(*_one_of(queue, type))

    async def resume(self, *, queue: str | None = None, type: str | None = None) -> None:
        await self.store.resume(*_one_of(queue, type))
        self.wakeups.announce([queue] if queue else {"default"})

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
        signals: Sequence[signal.Signals] = (),
        stop: asyncio.Event | None = None,
        **tuning: Any,
    ) -> None:
        """Run this queue's handlers until `stop` is set, one of `signals` comes, or the task is cancelled."""
        async with self:
            await run_worker(
                self,
                concurrency=concurrency,
                queues=tuple(queues),
                lease_ttl_us=parse_duration_us(lease, "lease"),
                grace_s=parse_duration_us(grace, "grace") / 1e6,
                poll_s=parse_duration_us(poll, "poll") / 1e6,
                batch=batch,
                signals=signals,
                stop=stop,
                **tuning,
            )

    @cached_property
    def sync(self) -> Any:
        """The same for code without an event loop: `queue.sync.submit(...)`."""
        from euterpe.queue.sync import SyncQueue

        return SyncQueue(self)

    # --- for the other files of this room -------------------------------------------------------------

    def call_of(self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any] | tuple[str, Any]:
        if isinstance(what, Call):
            if args or kwargs:
                raise InvalidInput("arguments", "are already part of the call made by with_args")
            return what
        if isinstance(what, JobType):
            return what.with_args(*args, **kwargs)
        if isinstance(what, str):
            return what, (args[0] if args else kwargs)
        raise InvalidInput("job", f"{what!r} is not a job type, a call or a type name")

    def submission_of_call(self, call: Call[Any] | tuple[str, Any], options: dict[str, Any]) -> Submission:
        if isinstance(call, tuple):
            return self.make_submission(*call, **options)
        return self.make_submission(call, None, **options)

    def make_submission(self, what: Any, payload: Any = None, /, **options: Any) -> Submission:
        """A checked submission of a call, a job type without arguments, or a type name with a payload."""
        if isinstance(what, JobType):
            what = what.with_args()
        if isinstance(what, Call):
            submission = what.submission(cast(Options, options))
        elif isinstance(what, str):
            jobtype = self.jobtypes.get(what)
            if jobtype is not None and not isinstance(payload, (bytes, bytearray)):
                if payload is not None and not isinstance(payload, dict):
                    raise InvalidInput("payload", f"{what} takes named arguments, not {type(payload).__name__}")
                encoded = jobtype.handler.encode((), payload or {})
                submission = submission_of(what, encoded, "json", {**jobtype.defaults, **options})
            else:
                submission = submission_of(what, *encode_payload(payload), options)
        else:
            raise InvalidInput("job", f"{what!r} is not a job type, a call or a type name")
        check(submission, self._payload_limit)
        return submission

    async def store_drafts(self, drafts: Sequence[Draft], key: str | None) -> list[JobHandle[Any]]:
        receipts = await self.store.submit_graph(drafts, key)
        return [self.handle_of(receipt) for receipt in receipts]

    async def spawn(self, claim: Claim, submissions: Sequence[Submission]) -> list[str]:
        receipts: list[Receipt] = await self.store.spawn(claim.lease, submissions)
        return [receipt.job_id for receipt in receipts]

    @contextmanager
    def watching(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that a worker of this very queue sets when the job is settled: no poll to wait for."""
        event = self._watched.setdefault(job_id, asyncio.Event())
        try:
            yield event
        finally:
            self._watched.pop(job_id, None)

    def settled(self, job_id: str) -> None:
        if self._watched and (event := self._watched.get(job_id)) is not None:
            event.set()

    def handle_of(self, receipt: Receipt) -> JobHandle[Any]:
        jobtype = self.jobtypes.get(receipt.type)
        returns = jobtype.handler.returns if jobtype is not None else Any
        return JobHandle(
            self,
            receipt.job_id,
            receipt.type,
            receipt.state,
            receipt.created_at,
            replayed=receipt.replayed,
            returns=returns,
        )


class _Decorator:
    """The type of `@queue.job(...)`: keeps the handler's arguments and result for the type checker."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> JobType[P, R]: ...
    def __call__(self, function: Any) -> Any: ...


def jobtype_probe(jobtype: JobType[..., Any]) -> Submission:
    """A submission with the type's defaults, so that a bad default fails at the decorator."""
    return submission_of(jobtype.type, b"{}", "json", {**jobtype.defaults})


def _one_of(queue: str | None, job_type: str | None) -> tuple[str, str]:
    if (queue is None) == (job_type is None):
        raise InvalidInput("pause", "name a queue or a type, one of them")
    return ("queue", queue) if queue is not None else ("type", cast(str, job_type))
