"""The queue for sync code: a thin facade that runs the async one on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from euterpe.duration import DurationLike
from euterpe.model.job import Attempt, Job
from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue
from euterpe.store.reading import Page, Stats
from euterpe.store.units import Unit, drafts_of

T = TypeVar("T")


class SyncQueue:
    """`queue.sync.submit(...)`, `queue.sync.result(job)` and friends. Opened at first use; `close()` when done."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def submit(self, what: Any, payload: Any = None, /, *, connection: Any = None, **options: Any) -> JobHandle[Any]:
        """Store a job. A sync `connection` (psycopg, SQLAlchemy, Django, sqlite3) joins the caller's transaction."""
        unit = Unit(drafts_of([self._queue.make_submission(what, payload, **options)]))
        if connection is None:
            receipts = self._run(self._queue.store.submit_unit(unit))
        else:
            receipts = self._queue.store.submit_unit_on_sync(unit, connection)
        return self._queue.handle_of(receipts[0])

    def submit_many(self, calls: Sequence[Any], **options: Any) -> list[JobHandle[Any]]:
        return self._run(self._queue.submit_many(calls, **options))

    def chain(self, calls: Sequence[Any], **options: Any) -> list[JobHandle[Any]]:
        return self._run(self._queue.chain(calls, **options))

    def fan_out(self, calls: Sequence[Any], *, then: Any = None, **options: Any) -> list[JobHandle[Any]]:
        return self._run(self._queue.fan_out(calls, then=then, **options))

    def result(self, job: JobHandle[T], timeout: DurationLike | None = None) -> T:
        return self._run(job.result(timeout))

    def get(self, job_id: str) -> Job:
        return self._run(self._queue.get(job_id))

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._run(self._queue.attempts(job_id))

    def search(self, **criteria: Any) -> Page:
        return self._run(self._queue.search(**criteria))

    def cancel(self, job_id: str, *, force: bool = False) -> State:
        return self._run(self._queue.cancel(job_id, force=force))

    def retry(self, job_id: str) -> JobHandle[Any]:
        return self._run(self._queue.retry(job_id))

    def stats(self) -> Stats:
        return self._run(self._queue.stats())

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._queue.__aexit__(None, None, None), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def __enter__(self) -> SyncQueue:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._started()).result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="euterpe-sync", daemon=True).start()
                asyncio.run_coroutine_threadsafe(self._queue.__aenter__(), loop).result()
                self._loop = loop
            return self._loop
