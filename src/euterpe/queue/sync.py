"""The queue for sync code: a thin facade that runs the async one on a loop in another thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, Unpack, overload

from euterpe.model.duration import DurationLike
from euterpe.model.errors import EuterpeError, OpenedBeforeFork
from euterpe.model.state import State
from euterpe.queue.definition.job_type import Call
from euterpe.queue.definition.options import Options, Updates
from euterpe.queue.handle import JobHandle
from euterpe.queue.job import Attempt, Job, Page, Stats
from euterpe.queue.submitting.submitter import Submitter

T = TypeVar("T")
Answers = Callable[..., Coroutine[Any, Any, T]]


class AsyncQueue(Protocol):
    """The queue behind the facade; its own signatures check the arguments."""

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
    """The methods of the queue for code without an event loop, as `queue.sync`. Arguments, results and errors are the
    same. The first use opens the queue. Call `close()` at the end, or use `with queue.sync:`.

    If the queue is already open, for example in a plain `def` handler inside a worker, the calls run on its event loop.
    Raises EuterpeError if a call would block the event loop of the queue.

    Example:
        with queue.sync as jobs:
            job = jobs.submit("report.render", {"report_id": 7})
            print(jobs.result(job, timeout="30s"))
    """

    def __init__(self, queue: AsyncQueue, submitter: Submitter) -> None:
        self._queue = queue
        self._submitter = submitter
        self._own: asyncio.AbstractEventLoop | None = None
        self._own_pid = 0
        self._lock = threading.Lock()

    @overload
    def submit(self, what: Call[T], /, *, connection: object = None, **options: Unpack[Options]) -> JobHandle[T]: ...
    @overload
    def submit(
        self, what: str, payload: Any = None, /, *, connection: object = None, **options: Unpack[Options]
    ) -> JobHandle[Any]: ...
    def submit(
        self, what: Any, payload: Any = None, /, *, connection: object = None, **options: Unpack[Options]
    ) -> JobHandle[Any]:
        """Store a job, as `Queue.submit` does. With a blocking `connection` (psycopg, SQLAlchemy, Django, sqlite3), the
        job is stored in its open transaction.

        Example:
            job = queue.sync.submit("report.render", {"report_id": 7})
        """
        if connection is None:
            return self.run(self._queue.submit(what, payload, **options))
        submitter = self._submitter
        return submitter.store_blocking(submitter.make_single(what, payload, options), connection)[0]

    def submit_many(
        self, calls: Sequence[Call[Any] | tuple[str, Any]], *, connection: object = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """Store all jobs, or none, as `Queue.submit_many` does. `connection` works as in `submit`.

        Example:
            jobs = queue.sync.submit_many([render.with_args(report_id=i) for i in range(1000)])
        """
        if connection is None:
            return self.run(self._queue.submit_many(calls, **options))
        submitter = self._submitter
        return submitter.store_blocking(submitter.make_unit(calls, options), connection) if calls else []

    def chain(self, calls: Sequence[Call[Any]], **options: Unpack[Options]) -> list[JobHandle[Any]]:
        """Store jobs that run one after the other, as `Queue.chain` does.

        Example:
            queue.sync.chain([extract.with_args(day="mon"), load.with_args()])
        """
        return self.run(self._queue.chain(calls, **options))

    def fan_out(
        self, calls: Sequence[Call[Any]], *, then: Call[Any] | None = None, **options: Unpack[Options]
    ) -> list[JobHandle[Any]]:
        """Store jobs that run in parallel, and `then` after them, as `Queue.fan_out` does.

        Example:
            queue.sync.fan_out([part.with_args(n) for n in range(8)], then=summary.with_args())
        """
        return self.run(self._queue.fan_out(calls, then=then, **options))

    def result(self, job: JobHandle[T], timeout: DurationLike | None = None) -> T:
        """Wait for the result, as `JobHandle.result` does. Raises JobFailed and TimeoutError.

        Example:
            pages = queue.sync.result(job, timeout="30s")
        """
        return self.run(job.result(timeout))

    def wait(self, job: JobHandle[Any], timeout: DurationLike | None = None) -> Job:
        """Wait for the end of the job, as `JobHandle.wait` does. Raises TimeoutError.

        Example:
            ended = queue.sync.wait(job, "1m")
        """
        return self.run(job.wait(timeout))

    def get(self, job_id: str) -> Job:
        """Read a job, as `Queue.get` does. Raises JobNotFound.

        Example:
            job = queue.sync.get(job_id)
        """
        return self.run(self._queue.get(job_id))

    def attempts(self, job_id: str) -> list[Attempt]:
        """Return every attempt of the job, as `Queue.attempts` does.

        Example:
            queue.sync.attempts(job_id)
        """
        return self.run(self._queue.attempts(job_id))

    def search(
        self,
        *,
        state: State | str | None = None,
        type: str | None = None,
        queue: str | None = None,
        tag: tuple[str, str] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Find jobs, newest first, as `Queue.search` does.

        Example:
            page = queue.sync.search(state="failed")
        """
        return self.run(self._queue.search(state=state, type=type, queue=queue, tag=tag, cursor=cursor, limit=limit))

    def cancel(self, job_id: str, *, force: bool = False) -> State:
        """Cancel a job, as `Queue.cancel` does.

        Example:
            queue.sync.cancel(job.id)
        """
        return self.run(self._queue.cancel(job_id, force=force))

    def retry(self, job_id: str) -> JobHandle[Any]:
        """Run an ended job again, as `Queue.retry` does.

        Example:
            again = queue.sync.retry(job.id)
        """
        return self.run(self._queue.retry(job_id))

    def dead_letter(self, job_id: str) -> State:
        """Move a failed job to the dead letters, as `Queue.dead_letter` does.

        Example:
            queue.sync.dead_letter(job.id)
        """
        return self.run(self._queue.dead_letter(job_id))

    def update(self, job_id: str, **changes: Unpack[Updates]) -> Job:
        """Change a stored job, as `Queue.update` does.

        Example:
            queue.sync.update(job.id, priority="high")
        """
        return self.run(self._queue.update(job_id, **changes))

    def pause(self, *, queue: str | None = None, type: str | None = None) -> None:
        """Pause a queue or a job type, as `Queue.pause` does.

        Example:
            queue.sync.pause(queue="mail")
        """
        self.run(self._queue.pause(queue=queue, type=type))

    def resume(self, *, queue: str | None = None, type: str | None = None) -> None:
        """Resume a queue or a job type, as `Queue.resume` does.

        Example:
            queue.sync.resume(queue="mail")
        """
        self.run(self._queue.resume(queue=queue, type=type))

    def stats(self) -> Stats:
        """Count jobs, as `Queue.stats` does.

        Example:
            queue.sync.stats().by_state
        """
        return self.run(self._queue.stats())

    def close(self) -> None:
        """Close the queue. The next use opens it again.

        Example:
            queue.sync.close()
        """
        with self._lock:
            loop, self._own = self._own, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._submitter.core.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def __enter__(self) -> SyncQueue:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the queue, and wait for its result.

        Example:
            queue.sync.run(job.progress())
        """
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
            open_on = self._submitter.core.loop
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
            asyncio.run_coroutine_threadsafe(self._submitter.core.open(), loop).result()
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
