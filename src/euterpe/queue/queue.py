"""The queue: submit, look, steer, and run. One object, one URL; every engine behaves the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import cached_property
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from euterpe.model.dependency import Dependency
from euterpe.model.duration import DurationLike
from euterpe.model.errors import InvalidInput
from euterpe.model.state import State
from euterpe.model.submitting.submission import PAYLOAD_LIMIT
from euterpe.ports import Capability, Clock
from euterpe.queue.core import QueueCore
from euterpe.queue.criteria import pause_target, search_of
from euterpe.queue.definition.cron import Cron, add_cron
from euterpe.queue.definition.job_type import Call, CronDecorator, JobDecorator, JobType, after_previous, register
from euterpe.queue.definition.options import Options, Updates, changes_of
from euterpe.queue.handle import JobHandle
from euterpe.queue.hooks import QueueHooks
from euterpe.queue.job import Attempt, Job, Page, Stats, attempt_of, job_of, jobs_of
from euterpe.queue.steering.crons import Crons
from euterpe.queue.steering.rates import Rates
from euterpe.queue.submitting.submitter import Submitter
from euterpe.queue.submitting.workflow import Workflow
from euterpe.queue.sync import SyncQueue
from euterpe.queue.worker import Worker, WorkerOptions
from euterpe.worker.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class Queue(QueueHooks):
    """A durable job queue on the database that `url` names.

    `url`: `sqlite:///jobs.db`, `postgresql://...`, `libsql:///jobs.db`, `redis://...`, or `http(s)://...` of a control
    plane. `payload_limit`: the largest payload in bytes. `clock`: a function that returns the time in microseconds
    since the epoch, for tests. `transport`: the URL of a Redis whose streams wake the workers of other processes.
    `token`: the API key for a control plane. `idempotency_window`: how long an idempotency key is kept, unless the job
    type or the submit sets it.

    `async with queue:` or `await queue.open()` opens the database. Raises InvalidInput for a wrong argument.

    Example:
        queue = euterpe.Queue("sqlite:///jobs.db")

        @queue.job("report.render")
        async def render(ctx: euterpe.Context, report_id: int) -> dict: ...

        async with queue:
            job = await render.submit(report_id=7)
    """

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
        self._core = QueueCore(
            url,
            payload_limit=payload_limit,
            clock=clock,
            transport=transport,
            token=token,
            idempotency_window=idempotency_window,
        )
        self._submitter = Submitter(self._core)
        self._opened_by_hand = False

    def __repr__(self) -> str:
        return f"<queue of {len(self._core.definitions)} job types, {'open' if self._core.users else 'closed'}>"

    @property
    def url(self) -> str:
        """The URL of the queue."""
        return self._core.url

    # --- life ---------------------------------------------------------------------------------------

    async def open(self) -> Queue:
        """Open the database, and migrate it if necessary. This is for notebooks and frameworks, where `async with
        queue:` does not fit. A second call does nothing. Raises StoreUnavailable if the database does not answer.

        Example:
            await queue.open()
        """
        if not self._opened_by_hand:
            await self._core.open()
            self._opened_by_hand = True
        return self

    async def close(self) -> None:
        """Close the database. A second call does nothing.

        Example:
            await queue.close()
        """
        if self._opened_by_hand:
            self._opened_by_hand = False
            await self._core.close()

    async def __aenter__(self) -> Queue:
        await self._core.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.close()

    # --- job types ----------------------------------------------------------------------------------

    @overload
    def job(
        self,
        type: str | None = None,
        /,
        *,
        process: bool = False,
        worker_limit: int | None = None,
        **options: Unpack[Options],
    ) -> JobDecorator: ...
    @overload
    def job(self, type: Callable[Concatenate[Context, P], Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def job(self, type: Callable[Concatenate[Context, P], R], /) -> JobType[P, R]: ...
    @overload
    def job(self, type: Callable[P, Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def job(self, type: Callable[P, R], /) -> JobType[P, R]: ...

    def job(
        self,
        type: str | Callable[..., Any] | None = None,
        /,
        *,
        process: bool = False,
        worker_limit: int | None = None,
        **options: Unpack[Options],
    ) -> JobDecorator | JobType[..., Any]:
        """Make a function a job type.

        `type`: the name of the job type. The default is the module and name of the function. `process`: run a plain
        `def` in its own process instead of a thread. `worker_limit`: how many of them one worker runs at once; it
        claims no more, and the rest waits in the queue for any worker. The options are defaults for submits; `timeout`
        also limits its runs. Raises InvalidInput for a wrong option or a signature that cannot work.

        Example:
            @queue.job("report.render", priority="high", max_attempts=5, timeout="10m")
            async def render(ctx: euterpe.Context, report_id: int) -> dict: ...
        """
        if type is not None and not isinstance(type, str):
            return self.job()(type)

        def decorate(function: Callable[..., Any]) -> JobType[..., Any]:
            return register(
                self._core, self._submitter, type, function, options, process=process, worker_limit=worker_limit
            )

        return JobDecorator(decorate)

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        type: str | None = None,
        name: str | None = None,
        missed: str = "skip",
        **options: Unpack[Options],
    ) -> CronDecorator:
        """Submit this job type at every tick of a cron expression. Each tick is submitted once, however many workers
        run.

        `expression`: five fields, or six with seconds first. `tz`: the time zone of the expression. `type`: the name of
        the job type. `name`: a name for this cron, if a job type has two crons with the same expression. `missed`:
        which ticks are submitted after a time without a worker: `skip` (none), `once` (the latest) or `all`. Raises
        InvalidInput for a wrong expression or time zone, and for a handler whose arguments have no defaults.

        Example:
            @queue.cron("0 3 * * *", tz="Europe/Berlin")
            async def nightly(ctx: euterpe.Context) -> None: ...
        """

        def decorate(function: Callable[..., Any]) -> JobType[..., Any]:
            if isinstance(function, JobType):
                if type is not None:
                    raise InvalidInput("type", f"the job type is named {function.type!r} already")
                jobtype, extra = function, options
            else:
                jobtype, extra = self.job(type, **options)(function), {}
            add_cron(self._core.crons, Cron(expression, tz, jobtype, extra, name, missed))
            return jobtype

        return CronDecorator(decorate)

    # --- submit -------------------------------------------------------------------------------------

    @overload
    async def submit(
        self, what: Call[R], /, *, connection: object = None, **options: Unpack[Options]
    ) -> JobHandle[R]: ...
    @overload
    async def submit(
        self, what: str, payload: Any = None, /, *, connection: object = None, **options: Unpack[Options]
    ) -> JobHandle[Any]: ...

    async def submit(
        self, what: Any, payload: Any = None, /, *, connection: object = None, **options: Unpack[Options]
    ) -> JobHandle[Any]:
        """Store a job. Pass a call made by `with_args`, or the name of a job type with its payload.

        `connection`: your own database connection; the job becomes part of its open transaction. Raises InvalidInput
        for a wrong payload or option, and IdempotencyConflict if the key was used for another request. Raises
        StoreUnavailable if the database does not answer; then nothing was stored.

        Example:
            job = await queue.submit("report.render", {"report_id": 7}, delay="5m", idempotency_key="r7")
        """
        return (await self._submitter.store(self._submitter.make_single(what, payload, options), connection))[0]

    async def submit_many(
        self, calls: Sequence[Call[Any] | tuple[str, Any]], *, connection: object = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """Store all jobs, or none. Options apply to each of them; `idempotency_key` applies to the whole batch. Raises
        what `submit` raises.

        Example:
            jobs = await queue.submit_many([render.with_args(report_id=i) for i in range(1000)])
        """
        unit = self._submitter.make_unit(calls, options)
        return await self._submitter.store(unit, connection) if unit.drafts else []

    def workflow(self, *, connection: object = None, **options: Unpack[Options]) -> Workflow:
        """Create a workflow: a DAG of jobs. All jobs are stored at the end of the block, or none is. Options are
        defaults for the jobs; `idempotency_key` applies to the whole workflow.

        Example:
            async with queue.workflow() as flow:
                a = flow.add(extract, day="mon")
                b = flow.add(load, after=[a])
        """
        defaults: dict[str, Any] = dict(options)
        key = defaults.pop("idempotency_key", None)
        return Workflow(self._submitter, defaults, key, connection)

    async def chain(self, calls: Sequence[Call[Any]], **options: Unpack[Options]) -> list[JobHandle[Any]]:
        """Store jobs that run one after the other. If one fails, the rest is cancelled. `euterpe.PREVIOUS` in an
        argument is the result of the previous job. Options are defaults for each job. Raises what `submit` raises.

        Example:
            await queue.chain([extract.with_args(day="mon"), load.with_args(rows=euterpe.PREVIOUS)])
        """
        async with self.workflow(**options) as flow:
            last: list[Any] = []
            for call in calls:
                extra: Options = {"dependency": Dependency.CHAIN} if last else {}
                fed = after_previous(call, [node.id for node in last], as_list=False) if last else call
                last = [flow.add(fed, after=last, options=extra)]
        return [node.handle for node in flow.nodes]

    async def fan_out(
        self, calls: Sequence[Call[Any]], *, then: Call[Any] | None = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """Store jobs that run in parallel. `then` runs when all of them and their children have completed.
        `euterpe.PREVIOUS` in an argument of `then` is the list of their results, in order. Returns the jobs, with
        `then` last. Raises what `submit` raises.

        Example:
            calls = [part.with_args(n) for n in range(8)]
            *parts, total = await queue.fan_out(calls, then=summary.with_args(parts=euterpe.PREVIOUS))
        """
        async with self.workflow(**options) as flow:
            nodes = [flow.add(call) for call in calls]
            if then is not None:
                fed = after_previous(then, [node.id for node in nodes], as_list=True)
                flow.add(fed, after=nodes, options={"dependency": Dependency.FAN_IN})
        return [node.handle for node in flow.nodes]

    # --- look and steer -----------------------------------------------------------------------------

    async def get(self, job_id: str) -> Job:
        """Read a job. Raises JobNotFound, or JobPruned if retention has removed it.

        Example:
            job = await queue.get(job_id)
        """
        return job_of(await self._core.get(job_id))

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return every attempt of the job, oldest first, including the running one. Raises JobNotFound.

        Example:
            print([attempt.outcome for attempt in await queue.attempts(job_id)])
        """
        return [attempt_of(row) for row in await self._core.store.attempts(job_id)]

    async def search(
        self,
        *,
        state: State | str | None = None,
        type: str | None = None,
        queue: str | None = None,
        tag: tuple[str, str] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Find the jobs that match all given criteria, newest first.

        `tag`: a name and its value. `limit`: 1 to 1000 jobs; a page of large jobs has fewer. `cursor`: the cursor of
        the previous page. Raises InvalidInput for a wrong state, tag, cursor or limit.

        Example:
            page = await queue.search(state="failed", tag=("team", "a"), limit=100)
        """
        found = await self._core.store.search(search_of(state, type, queue, tag, cursor, limit))
        return Page(jobs_of(found.jobs), found.cursor)

    async def cancel(self, job_id: str, *, force: bool = False) -> State:
        """Cancel a job and return its new state. A waiting job is cancelled at once. A running handler is asked to
        stop; `force=True` takes the job away from it. Raises JobNotFound, and IllegalTransition if the job has ended.

        Example:
            await queue.cancel(job.id)
        """
        return await self._core.cancel(job_id, force)

    async def retry(self, job_id: str) -> JobHandle[Any]:
        """Run an ended job again. A failed job with attempts left keeps its id; any other becomes a new job. Returns
        the handle of the job that runs. Raises JobNotFound, and IllegalTransition if the job has not ended.

        Example:
            again = await queue.retry(job.id)
        """
        return self._core.handle_of_row(await self._core.retry(job_id))

    async def dead_letter(self, job_id: str) -> State:
        """Move a failed job to the dead letters, so that nobody retries it by mistake. Raises JobNotFound, and
        IllegalTransition for a job in any other state.

        Example:
            await queue.dead_letter(job.id)
        """
        return await self._core.store.dead_letter(job_id)

    async def update(self, job_id: str, **changes: Unpack[Updates]) -> Job:
        """Change the tags, the correlation id or the callback of a job, or its priority while it waits. None removes a
        value. Returns the changed job. Raises JobNotFound, InvalidInput for a wrong value, and IllegalTransition for
        the priority of a job that no longer waits.

        Example:
            await queue.update(job.id, priority="high", tags={"team": "a"})
        """
        return job_of(await self._core.store.update(job_id, changes_of(changes)))

    async def pause(self, *, queue: str | None = None, type: str | None = None) -> None:
        """Stop all workers from claiming jobs of this queue or this type, until `resume`. Running jobs continue. Raises
        InvalidInput unless exactly one of the two is named.

        Example:
            await queue.pause(type="report.render")
        """
        await self._core.store.pause(*pause_target(queue, type))

    async def resume(self, *, queue: str | None = None, type: str | None = None) -> None:
        """Let workers claim jobs of this queue or this type again. Raises InvalidInput unless exactly one of the two
        is named.

        Example:
            await queue.resume(type="report.render")
        """
        store = self._core.store
        await store.resume(*pause_target(queue, type))
        if Capability.OPERATE not in store.capabilities:
            return  # A control plane wakes the workers itself.
        waiting = [queue] if queue is not None else {depth.queue for depth in await store.depths()}
        self._core.wakeups.announce(waiting)

    async def stats(self) -> Stats:
        """Count jobs by state, queue and type, with the age of the oldest waiting job of each queue, and the jobs that
        ended in the last minute.

        Example:
            print((await queue.stats()).by_state)
        """
        found = await self._core.store.stats()
        ages = {queue: timedelta(microseconds=age_us) for queue, age_us in found.oldest_age_us.items()}
        return Stats(
            found.by_state, found.by_queue, found.by_type, ages, found.per_minute, found.outbox, found.estimated
        )

    # --- run ----------------------------------------------------------------------------------------

    def worker(self, concurrency: int = 100, **options: Unpack[WorkerOptions]) -> Worker:
        """Create a worker for the handlers of this queue. Start it by `async with worker:` or `await worker.run()`.

        `concurrency`: how many jobs it runs at once. `WorkerOptions` explains the other options. Raises InvalidInput
        for a wrong option.

        Example:
            worker = queue.worker(concurrency=20, queues=["mail", "default"])
        """
        return Worker(self._submitter, concurrency, options)

    async def work(self, concurrency: int = 100, **options: Unpack[WorkerOptions]) -> None:
        """Run jobs until `stop` is set, one of `signals` arrives, or the task is cancelled. This is the same as
        `await queue.worker(...).run()`. The worker also delivers webhooks; `webhooks=False` leaves them to other
        processes.

        Example:
            await queue.work(concurrency=100)
        """
        await self.worker(concurrency, **options).run()

    @cached_property
    def crons(self) -> Crons:
        """The crons of this database: list, pause, edit and run them.

        Example:
            await queue.crons.pause("report.render:nightly")
        """
        return Crons(self._submitter)

    @cached_property
    def rates(self) -> Rates:
        """How fast jobs of a key may start, over all workers.

        Example:
            await queue.rates.set("stripe", "100/s", burst=20)
        """
        return Rates(self._core)

    @cached_property
    def sync(self) -> SyncQueue:
        """The same for code without an event loop.

        Example:
            job = queue.sync.submit("report.render", {"report_id": 7})
        """
        return SyncQueue(self, self._submitter)


def core_of(queue: Queue) -> QueueCore:
    """The inside of a queue, for the other rooms of this package."""
    return queue._core  # noqa: SLF001  # users do not see it; the package has to


def submitter_of(queue: Queue) -> Submitter:
    return queue._submitter  # noqa: SLF001  # likewise
