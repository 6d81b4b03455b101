"""Lifespan, middleware and hooks: what a user hangs around jobs, and what hostile ones can and cannot do."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

import euterpe
from euterpe import testing
from euterpe.model.errors import EuterpeError, InvalidInput, PermanentError, TemporaryError, Unsupported
from euterpe.model.state import State
from euterpe.queue.queue import Queue
from euterpe.queue.submitting.submit_middleware import NewJob
from euterpe.worker.context import NO_STATE, Context
from euterpe.worker.handling.handlers import Handlers
from euterpe.worker.handling.hooks import AttemptHooks, Hooks
from euterpe.worker.handling.signature import injected
from tests.examples.test_docs import python_blocks
from tests.worker.inline import AT_ONCE, working

CallNext = Callable[[], Awaitable[Any]]
tenant: ContextVar[str] = ContextVar("tenant", default="none")


class Pool:
    def __init__(self) -> None:
        self.is_open = True


@dataclass
class Resources:
    pool: Pool
    name: str


def with_resources(queue: Queue) -> list[str]:
    """A lifespan and three handlers that use it; returns what happens, in order."""
    seen: list[str] = []

    @queue.lifespan
    async def resources() -> AsyncIterator[Resources]:
        seen.append("opened")
        state = Resources(Pool(), "main")
        yield state
        state.pool.is_open = False
        seen.append("closed")

    @queue.job("by_context")
    async def by_context(ctx: Context) -> str:
        assert ctx.state.pool.is_open
        return str(ctx.state.name)

    @queue.job("injected")
    async def whole(n: int, state: Resources = injected(), name: str = injected()) -> str:
        return f"{n} {state.pool.is_open} {name}"

    @queue.job("in_a_thread")
    def in_a_thread(ctx: Context, pool: Pool = injected()) -> bool:
        return pool is ctx.state.pool and pool.is_open

    @queue.middleware
    async def around(ctx: Context, call_next: CallNext) -> Any:
        token = tenant.set(ctx.type)
        try:
            return await call_next()
        finally:
            seen.append(ctx.type)
            tenant.reset(token)

    return seen


async def test_handlers_get_what_the_lifespan_opened_and_it_is_closed_after_the_last(queue: Queue) -> None:
    seen = with_resources(queue)
    async with working(queue):
        jobs = [await queue.submit(name, said) for name, said in
                (("by_context", {}), ("injected", {"n": 7}), ("in_a_thread", {}))]  # fmt: skip
        assert [await job.result("30s") for job in jobs] == ["main", "7 True main", True]
    assert seen[0] == "opened"
    assert seen[-1] == "closed"
    assert sorted(seen[1:-1]) == ["by_context", "in_a_thread", "injected"]


async def test_the_same_holds_in_inline_tests(unopened: Queue) -> None:
    seen = with_resources(unopened)
    async with testing.queue(unopened):
        job = await unopened.submit("injected", {"n": 1})
        await unopened.submit("in_a_thread", {})
        ran = await testing.drain(unopened, strict=True)
        assert [done.result for done in ran] == ["1 True main", True]
        assert (await job.result()) == "1 True main"

    @unopened.job("more")
    async def more(ctx: Context, pool: Pool = injected()) -> str:
        return f"{pool.is_open} {tenant.get()}"

    assert await testing.run(more) == "True more"
    assert seen == ["opened", "injected", "in_a_thread", "closed", "opened", "more", "closed"]


async def test_a_lifespan_that_fails_keeps_the_worker_from_starting(unopened: Queue) -> None:
    @unopened.job("nothing")
    async def nothing() -> None: ...

    @unopened.lifespan
    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise RuntimeError("no route to the cache")
        yield

    with pytest.raises(EuterpeError, match=r"lifespan .*broken failed at its start: RuntimeError: no route to the c"):
        await unopened.work()
    with pytest.raises(EuterpeError, match="failed at its start"):
        await unopened.worker().start()
    with pytest.raises(InvalidInput, match="already"):
        unopened.lifespan(broken)


@pytest.mark.parametrize("patient", [True, False], ids=["raises", "hangs"])
async def test_a_lifespan_that_fails_at_its_end_says_so(
    unopened: Queue, patient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.worker.handling.lifespan.CLOSE_S", 0.05)

    @unopened.job("nothing")
    async def nothing() -> None: ...

    @unopened.lifespan
    async def broken() -> AsyncIterator[None]:
        yield
        if patient:
            raise RuntimeError("already closed")
        await asyncio.Event().wait()

    worker = unopened.worker()
    await worker.start()
    said = "failed at its end: RuntimeError: already closed" if patient else "did not end within 0.1 s"
    with pytest.raises(EuterpeError, match=said):
        await worker.stop()


async def test_a_cancelled_worker_closes_its_lifespan(unopened: Queue) -> None:
    seen: list[str] = []
    is_open = asyncio.Event()

    @unopened.job("nothing")
    async def nothing() -> None: ...

    @unopened.lifespan
    async def resources() -> AsyncIterator[None]:
        is_open.set()
        seen.append("opened")
        yield
        seen.append("closed")

    task = asyncio.create_task(unopened.work())
    await is_open.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["opened", "closed"]


async def test_what_the_state_does_not_have_is_refused_before_the_first_job(unopened: Queue) -> None:
    @unopened.job("asks")
    async def asks(cache: dict[str, str] = injected()) -> None: ...

    with pytest.raises(InvalidInput, match="asks asks for cache, but this queue has no lifespan"):
        await unopened.work()
    closed = with_resources(unopened)
    with pytest.raises(InvalidInput, match="yields a Resources: no dict, and nothing of that name"):
        await unopened.work()
    assert closed == ["opened", "closed"]

    wrong = Queue("sqlite:///:memory:")

    @wrong.lifespan
    async def resources() -> AsyncIterator[Resources]:
        yield Resources(Pool(), "main")

    @wrong.job("wrong")
    async def wrongly(name: int = injected()) -> None: ...

    with pytest.raises(InvalidInput, match="wrong asks for name as int, but name of the lifespan's state is str"):
        await wrong.work()


def test_what_cannot_be_a_hook_is_refused_at_its_decorator(unopened: Queue) -> None:
    def plain(*_: Any) -> None: ...

    async def no_generator() -> None: ...

    for register in (unopened.middleware, unopened.submit_middleware, unopened.on_error):
        with pytest.raises(InvalidInput, match="must be an `async def`"):
            register(plain)  # type: ignore[type-var]
    with pytest.raises(InvalidInput, match="must be an `async def` that yields once"):
        unopened.lifespan(no_generator)  # type: ignore[type-var]
    with pytest.raises(InvalidInput, match="no lifespan reaches a process"):
        unopened.job("crunch", process=True)(in_a_process)


def in_a_process(pool: Pool = injected()) -> None: ...


async def test_a_lifespan_must_make_a_context_manager(unopened: Queue) -> None:
    @unopened.job("nothing")
    async def nothing() -> None: ...

    def not_one() -> AbstractAsyncContextManager[int]:
        return 7  # type: ignore[return-value]

    unopened.lifespan(not_one)
    with pytest.raises(EuterpeError, match="returned int and no async context manager"):
        await unopened.work()


def test_a_queue_without_hooks_pays_nothing_for_them() -> None:
    assert AttemptHooks(Hooks(), Handlers(), NO_STATE).around is None


# --- middleware ---


async def test_middleware_may_change_the_result_and_the_error_and_the_first_is_outermost(queue: Queue) -> None:
    order: list[str] = []

    @queue.job("double")
    async def double(n: int) -> int:
        order.append("handler")
        if n < 0:
            raise ValueError("too small")
        return 2 * n

    @queue.middleware
    async def outer(ctx: Context, call_next: CallNext) -> Any:
        order.append("outer")
        try:
            return await call_next() + 1
        except ValueError as error:
            raise PermanentError(str(error), code="too_small") from error

    @queue.middleware
    async def inner(ctx: Context, call_next: CallNext) -> Any:
        order.append("inner")
        return await call_next() * 10

    async with working(queue):
        assert await (await double.submit(3)).result("30s") == 61
        ended = await (await double.submit(-1)).wait("30s")
    assert order[:3] == ["outer", "inner", "handler"]
    assert (ended.state, ended.error and ended.error.code) == (State.FAILED, "too_small")


@pytest.mark.parametrize(
    ("kind", "state", "says"),
    [
        ("raises", State.DEAD_LETTER, "the cache is down"),
        ("never_calls", State.DEAD_LETTER, "without awaiting call_next(), so the handler did not run"),
        ("calls_twice", State.DEAD_LETTER, "called call_next twice"),
        ("does_not_wait", State.DEAD_LETTER, "returned before call_next() had ended"),
        ("swallows", State.COMPLETED, None),
    ],
)
async def test_hostile_middleware(unopened: Queue, kind: str, state: State, says: str | None) -> None:
    runs = 0

    @unopened.job("work", max_attempts=1)
    async def work() -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0)
        raise ValueError("of the handler")

    @unopened.middleware
    async def hostile(ctx: Context, call_next: CallNext) -> Any:
        match kind:
            case "raises":
                raise TemporaryError("the cache is down")
            case "never_calls":
                return None
            case "does_not_wait":
                background.append(asyncio.ensure_future(call_next()))
                await asyncio.sleep(0)
                return None
            case _:
                try:
                    await call_next()
                except ValueError:
                    return await call_next() if kind == "calls_twice" else "saved"

    background: list[asyncio.Future[Any]] = []
    async with testing.queue(unopened):
        job = await work.submit()
        await testing.drain(unopened)
        ended = await unopened.get(job.id)
        await asyncio.gather(*background, return_exceptions=True)
    assert ended.state is state
    assert says is None or (ended.error is not None and says in ended.error.message)
    assert ended.result == ("saved" if kind == "swallows" else None)
    assert runs == (0 if kind in ("raises", "never_calls") else 1)


async def test_a_cancel_and_a_timeout_pass_through_middleware_that_swallows_them(queue: Queue) -> None:
    began = asyncio.Event()
    told: list[str] = []

    @queue.job("hangs")
    async def hangs() -> None:
        began.set()
        await asyncio.Event().wait()

    @queue.job("slow", timeout="50ms", max_attempts=1)
    async def slow() -> None:
        await asyncio.Event().wait()

    @queue.middleware
    async def swallows(ctx: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except asyncio.CancelledError:
            return "swallowed"

    @queue.on_error
    async def report(ctx: Context, error: BaseException) -> None:
        told.append(f"{ctx.type}: {error!r}")

    async with working(queue, lease="5s"):
        job = await hangs.submit()
        await asyncio.wait_for(began.wait(), 30)
        await job.cancel()
        assert (await job.wait("30s")).state is State.CANCELLED
        late = await (await slow.submit()).wait("30s")
    assert late.state is State.DEAD_LETTER
    assert late.error is not None
    assert late.error.category == "timeout"
    assert told == ["slow: TimeoutError('the execution timeout of 0.05 s is over')"]


# --- on_error ---


async def test_on_error_is_told_of_every_failed_attempt_and_cannot_change_what_it_means(queue: Queue) -> None:
    told: list[tuple[str, int, str]] = []

    @queue.job("fails", max_attempts=2, backoff=AT_ONCE)
    def fails(n: int) -> float:
        return 1 / n

    @queue.job("unstorable", max_attempts=1)
    async def unstorable() -> Any:
        return object()

    @queue.on_error
    async def broken(ctx: Context, error: BaseException) -> None:
        raise RuntimeError("the reporter is down")

    @queue.on_error
    async def report(ctx: Context, error: BaseException) -> None:
        told.append((ctx.type, ctx.attempt, type(error).__name__))

    async with working(queue):
        jobs = [await fails.submit(0), await fails.submit(1), await unstorable.submit()]
        ends = [(await job.wait("30s")).state for job in jobs]
    assert ends == [State.DEAD_LETTER, State.COMPLETED, State.FAILED]
    assert sorted(told) == [
        ("fails", 1, "ZeroDivisionError"), ("fails", 2, "ZeroDivisionError"), ("unstorable", 1, "UnstorableResult"),
    ]  # fmt: skip


class Letterbox(Transport):
    """What Sentry would have been sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        if (event := envelope.get_event()) is not None:
            self.events.append(event)


async def test_the_sentry_recipe_of_the_documentation_reports_a_failed_attempt_once(queue: Queue) -> None:
    letterbox = Letterbox()
    # The integration that a stock Sentry has, and that reports every log line of level error.
    integrations = [LoggingIntegration()]
    said: dict[str, Any] = {"default_integrations": False, "integrations": integrations}
    sentry_sdk.init(dsn="http://key@localhost/1", transport=letterbox, **said)
    try:

        @queue.job("charge", max_attempts=1)
        def charge(order: int) -> None:
            raise ValueError("declined")

        known = {"queue": queue, "euterpe": euterpe, "sentry_sdk": sentry_sdk}
        recipe = compile(python_blocks("hooks.md")[1], "hooks.md", "exec")
        exec(recipe, {**known, "Any": Any, "Callable": Callable, "Awaitable": Awaitable})  # noqa: S102  # our own page
        async with queue.worker():
            job = await charge.submit(order=7)
            await job.wait("30s")
        (event,) = letterbox.events
        assert event["exception"]["values"][-1]["type"] == "ValueError"
        assert event["tags"]["job_type"] == "charge"
        assert event["contexts"]["job"] == {"id": job.id, "attempt": 1, "of": 1}
    finally:
        sentry_sdk.init(default_integrations=False)  # The default ones change `subprocess` for all later tests.


# --- submit middleware ---


async def test_submit_middleware_adds_to_every_job_on_every_way_in(queue: Queue) -> None:
    @queue.job("child")
    async def child() -> None: ...

    @queue.job("parent")
    async def parent(ctx: Context) -> str:
        return await ctx.spawn(child)

    @queue.submit_middleware
    async def add_tenant(jobs: Sequence[NewJob], call_next: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(0)
        for job in jobs:
            job.tags["tenant"] = "acme"
            job.correlation_id = f"{job.type} {job.queue} {job.priority.name} {job.payload}"
        await call_next()

    async with working(queue):
        first = await parent.options(tags={"team": "a"}).submit()
        spawned = await first.result("30s")
        async with queue.workflow() as flow:
            node = flow.add(child)
        sent = [first.id, spawned, node.id, (await queue.submit("child", {})).id]
        jobs = [await queue.get(job_id) for job_id in sent]
    assert [job.tags["tenant"] for job in jobs] == ["acme"] * 4
    assert jobs[0].tags["team"] == "a"
    assert jobs[0].correlation_id == "parent default NORMAL {}"


async def test_submit_middleware_that_refuses_forgets_or_swallows_stores_nothing_in_silence(unopened: Queue) -> None:
    mode = "refuse"

    @unopened.job("work")
    async def work() -> None: ...

    @unopened.submit_middleware
    async def hostile(jobs: Sequence[NewJob], call_next: Callable[[], Awaitable[None]]) -> None:
        match mode:
            case "refuse":
                raise PermissionError("this tenant may not")
            case "spoil":
                jobs[0].tags["x"] = 7  # type: ignore[assignment]
                await call_next()
            case "swallow":
                jobs[0].correlation_id = "x" * 10_000
                try:
                    await call_next()
                except InvalidInput:
                    return
            case "twice":
                await call_next()
                await call_next()

    async with testing.queue(unopened):
        with pytest.raises(PermissionError, match="may not"):
            await work.submit()
        mode = "forget"
        with pytest.raises(EuterpeError, match=r"did not await call_next\(\), so nothing was stored"):
            await work.submit()
        mode = "spoil"
        with pytest.raises(InvalidInput):
            await work.submit()
        mode = "swallow"
        with pytest.raises(InvalidInput):
            await work.submit()
        testing.assert_not_submitted(unopened)
        mode = "twice"
        with pytest.raises(EuterpeError, match="called call_next twice"):
            await work.submit()
        assert len(testing.submitted(unopened)) == 1


async def test_submit_middleware_holds_on_a_blocking_connection_unless_it_waits(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)
    waits = False

    @queue.job("work")
    async def work() -> None: ...

    @queue.submit_middleware
    async def add(jobs: Sequence[NewJob], call_next: Callable[[], Awaitable[None]]) -> None:
        if waits:
            await asyncio.sleep(0)
        jobs[0].tags["tenant"] = "acme"
        await call_next()

    async with queue:
        with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
            job = queue.sync.submit(work.with_args(), connection=connection)
            connection.commit()
            assert (await queue.get(job.id)).tags == {"tenant": "acme"}
            waits = True
            with pytest.raises(Unsupported, match="cannot wait for it"):
                queue.sync.submit(work.with_args(), connection=connection)


def crunch(n: int) -> list[int]:
    return [n, n]


async def test_middleware_runs_around_a_process_too_and_sees_what_it_returned(queue: Queue) -> None:
    job_type = queue.job("crunch", process=True)(crunch)

    @queue.middleware
    async def double(ctx: Context, call_next: CallNext) -> Any:
        return [*await call_next(), ctx.type]

    async with working(queue):
        assert await (await job_type.submit(7)).result("20s") == [7, 7, "crunch"]


async def test_middleware_around_a_process_handler_holds_in_inline_tests(unopened: Queue) -> None:
    job_type = unopened.job("crunch", process=True)(crunch)

    @unopened.middleware
    async def double(ctx: Context, call_next: CallNext) -> Any:
        return [*await call_next(), ctx.type]

    async with testing.queue(unopened):
        job = await job_type.submit(7)
        await testing.drain(unopened, strict=True)
        assert (await unopened.get(job.id)).result == [7, 7, "crunch"]
