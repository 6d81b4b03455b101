"""What a handler is given: who it is, how far it may go, and a way to tell how far it got.

Every method can be awaited in async code and simply called in a plain `def`: the news is on its way when the call
returns, and awaiting (or `.wait()`) makes sure that it was written.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from euterpe.model.errors import InvalidInput, PayloadTooLarge
from euterpe.model.job import Claim
from euterpe.model.submission import RESULT_LIMIT, Submission
from euterpe.ports import Advance

T = TypeVar("T")


class Sent(Generic[T]):
    """News under way. Await it, `.wait()` for it from a thread, or let it be."""

    def __init__(self, future: concurrent.futures.Future[T] | asyncio.Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, T]:
        future = self._future
        if isinstance(future, concurrent.futures.Future):
            return asyncio.wrap_future(future).__await__()
        return future.__await__()

    def wait(self, timeout_s: float | None = None) -> T:
        """Block until written; for plain `def` handlers."""
        if isinstance(self._future, concurrent.futures.Future):
            return self._future.result(timeout_s)
        raise RuntimeError("an async handler awaits its news instead of waiting for it")


class Desk(msgspec.Struct, frozen=True):
    """Where a context's news goes: bound to the worker that runs the attempt."""

    loop: asyncio.AbstractEventLoop
    advance: Callable[[Advance], Awaitable[None]]
    spawn: Callable[[Claim, Sequence[Submission]], Awaitable[list[str]]]
    make_submission: Callable[..., Submission]


class Context:
    """One execution of a job, as its handler sees it."""

    __slots__ = ("_cancelled", "_claim", "_deadline", "_desk")

    def __init__(self, claim: Claim, desk: Desk, deadline: float) -> None:
        self._claim = claim
        self._desk = desk
        self._deadline = deadline
        self._cancelled = False

    @property
    def job_id(self) -> str:
        return self._claim.job.id

    @property
    def attempt(self) -> int:
        """1 for the first execution."""
        return self._claim.job.attempt_count

    @property
    def max_attempts(self) -> int:
        return self._claim.job.max_attempts

    @property
    def attempt_id(self) -> str:
        return self._claim.lease.attempt_id

    @property
    def previous_attempt_id(self) -> str | None:
        return self._claim.job.previous_attempt_id

    @property
    def deadline(self) -> float:
        """When the execution timeout strikes, on the event loop's clock (`loop.time()`, `time.monotonic()`)."""
        return self._deadline

    @property
    def tags(self) -> dict[str, str]:
        return self._claim.job.tags

    @property
    def correlation_id(self) -> str | None:
        return self._claim.job.correlation_id

    @property
    def cancelled(self) -> bool:
        """Whether this attempt was asked to stop (cancel, timeout, lost lease). A plain `def` looks now and then."""
        return self._cancelled

    @property
    def last_checkpoint(self) -> Any:
        """What the latest checkpoint of this job held (JSON decoded, or the raw bytes); None without one."""
        stored = self._claim.job.checkpoint
        if not stored:
            return None
        return stored[1:] if stored[:1] == b"b" else msgspec.json.decode(stored[1:])

    def ask_to_stop(self) -> None:
        """The worker's side: from now on `cancelled` is true."""
        self._cancelled = True

    def progress(self, percent: float, message: str | None = None) -> Sent[None]:
        """How far the work is, 0 to 100."""
        if not 0 <= percent <= 100:
            raise InvalidInput("progress", f"{percent!r} is not between 0 and 100")
        return self._send(Advance(self._claim, progress=float(percent), message=_clean(message)))

    def checkpoint(self, value: Any) -> Sent[None]:
        """Bytes or JSON that the next attempt finds in `last_checkpoint`."""
        stored = b"b" + bytes(value) if isinstance(value, (bytes, bytearray)) else b"j" + msgspec.json.encode(value)
        if len(stored) > RESULT_LIMIT:
            raise PayloadTooLarge("checkpoint", f"{len(stored)} bytes; the limit is {RESULT_LIMIT}")
        return self._send(Advance(self._claim, checkpoint=stored))

    def stage(self, name: str) -> Sent[None]:
        """Move on to the next of the stages that the job type declares."""
        return self._send(Advance(self._claim, stage=name))

    def spawn(self, what: Any, payload: Any = None, /, **options: Any) -> Sent[str]:
        """Submit a child of this job; fan-ins on this job wait for it too. Refused when the lease is lost."""
        submission = self._desk.make_submission(what, payload, **options)

        async def one() -> str:
            return (await self._desk.spawn(self._claim, [submission]))[0]

        return Sent(self._run(one()))

    def _send(self, news: Advance) -> Sent[None]:
        async def send() -> None:
            await self._desk.advance(news)

        return Sent(self._run(send()))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T] | asyncio.Future[T]:
        try:
            on_loop = asyncio.get_running_loop() is self._desk.loop
        except RuntimeError:
            on_loop = False
        if on_loop:
            return self._desk.loop.create_task(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._desk.loop)


def _clean(message: str | None) -> str | None:
    return None if message is None else message.replace("\x00", "")[:500]
