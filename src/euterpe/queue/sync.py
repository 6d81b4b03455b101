"""The queue for sync code: a thin facade that runs the async one on a loop in another thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, overload

from euterpe.model.duration import DurationLike
from euterpe.model.errors import EuterpeError, OpenedBeforeFork
from euterpe.model.job import Attempt, Job
from euterpe.model.state import State
from euterpe.model.views import Page, Stats
from euterpe.queue.handle import JobHandle
from euterpe.queue.job_type import Call

T = TypeVar("T")
Answers = Callable[..., Coroutine[Any, Any, T]]


class AsyncQueue(Protocol):
    """The queue behind the facade; its own signatures check the arguments."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None: ...
    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None: ...
    def make_single(self, what: Any, payload: Any, options: Any) -> Any: ...
    def make_unit(self, calls: Sequence[Any], options: Any) -> Any: ...
    def submit_blocking(self, unit: Any, connection: Any) -> list[JobHandle[Any]]: ...
    @property
    def submit(self) -> Answers[JobHandle[Any]]: ...
    @property
    def submit_many(self) -> Answers[list[JobHandle[Any]]]: ...
    @property
    def chain(self) -> Answers[list[JobHandle[Any]]]: ...
    @property
    def fan_out(self) -> Answers[list[JobHandle[Any]]]: ...
    @property
    def get(self) -> Answers[Job]: ...
    @property
    def attempts(self) -> Answers[list[Attempt]]: ...
    @property
    def search(self) -> Answers[Page]: ...
    @property
    def cancel(self) -> Answers[State]: ...
    @property
    def retry(self) -> Answers[JobHandle[Any]]: ...
    @property
    def dead_letter(self) -> Answers[State]: ...
    @property
    def update(self) -> Answers[Job]: ...
    @property
    def pause(self) -> Answers[None]: ...
    @property
    def resume(self) -> Answers[None]: ...
    @property
    def stats(self) -> Answers[Stats]: ...


class SyncQueue:
    """`queue.sync.submit(...)`, `queue.sync.result(job)` and friends. Opened at first use; `close()` when done.

    Where the queue is open already (a plain `def` handler inside a worker), its calls go to that loop."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue
        self._own: asyncio.AbstractEventLoop | None = None
        self._own_pid = 0
        self._lock = threading.Lock()

    @overload
    def submit(self, what: Call[T], /, *, connection: Any = None, **options: Any) -> JobHandle[T]: ...
    @overload
    def submit(
        self, what: str, payload: Any = None, /, *, connection: Any = None, **options: Any
    ) -> JobHandle[Any]: ...
    def submit(self, what: Any, payload: Any = None, /, *, connection: Any = None, **options: Any) -> JobHandle[Any]:
        """Store a job. A blocking `connection` (psycopg, SQLAlchemy, Django, sqlite3) joins its open transaction."""
        if connection is None:
            return self.run(self._queue.submit(what, payload, **options))
        return self._queue.submit_blocking(self._queue.make_single(what, payload, options), connection)[0]

    def submit_many(
        self, calls: Sequence[Call[Any] | tuple[str, Any]], *, connection: Any = None, **options: Any
    ) -> list[JobHandle[Any]]:
        if connection is None:
            return self.run(self._queue.submit_many(calls, **options))
        return self._queue.submit_blocking(self._queue.make_unit(calls, options), connection) if calls else []

    def chain(self, calls: Sequence[Call[Any]], **options: Any) -> list[JobHandle[Any]]:
        return self.run(self._queue.chain(calls, **options))

    def fan_out(
        self, calls: Sequence[Call[Any]], *, then: Call[Any] | None = None, **options: Any
    ) -> list[JobHandle[Any]]:
        return self.run(self._queue.fan_out(calls, then=then, **options))

    def result(self, job: JobHandle[T], timeout: DurationLike | None = None) -> T:
        return self.run(job.result(timeout))

    def wait(self, job: JobHandle[Any], timeout: DurationLike | None = None) -> Job:
        return self.run(job.wait(timeout))

    def get(self, job_id: str) -> Job:
        return self.run(self._queue.get(job_id))

    def attempts(self, job_id: str) -> list[Attempt]:
        return self.run(self._queue.attempts(job_id))

    def search(self, **criteria: Any) -> Page:
        return self.run(self._queue.search(**criteria))

    def cancel(self, job_id: str, *, force: bool = False) -> State:
        return self.run(self._queue.cancel(job_id, force=force))

    def retry(self, job_id: str) -> JobHandle[Any]:
        return self.run(self._queue.retry(job_id))

    def dead_letter(self, job_id: str) -> State:
        return self.run(self._queue.dead_letter(job_id))

    def update(self, job_id: str, **changes: Any) -> Job:
        """priority=, tags=, correlation_id=, callback_url=."""
        return self.run(self._queue.update(job_id, **changes))

    def pause(self, *, queue: str | None = None, type: str | None = None) -> None:
        self.run(self._queue.pause(queue=queue, type=type))

    def resume(self, *, queue: str | None = None, type: str | None = None) -> None:
        self.run(self._queue.resume(queue=queue, type=type))

    def stats(self) -> Stats:
        return self.run(self._queue.stats())

    def close(self) -> None:
        with self._lock:
            loop, self._own = self._own, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._queue.__aexit__(None, None, None), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def __enter__(self) -> SyncQueue:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run anything that awaits this queue where the queue is open, and wait for it."""
        try:
            loop = self._loop()
        except BaseException:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._own is not None and self._own_pid != os.getpid():
            raise OpenedBeforeFork
        with self._lock:
            open_on = self._queue.loop
            if open_on is not None and open_on is not self._own:
                _refuse_to_block(open_on)
                return open_on
            if self._own is None:
                self._own, self._own_pid = self._start(), os.getpid()
            return self._own

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=_run_loop, args=(loop,), name="euterpe-sync", daemon=True).start()
        try:
            asyncio.run_coroutine_threadsafe(self._queue.__aenter__(), loop).result()
        except BaseException:
            loop.call_soon_threadsafe(loop.stop)
            raise
        return loop


def _refuse_to_block(loop: asyncio.AbstractEventLoop) -> None:
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running is loop:
        raise EuterpeError("queue.sync would block the event loop that the queue runs on; await the queue itself here")


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
