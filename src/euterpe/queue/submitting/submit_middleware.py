"""Middleware around a submit: it sees the jobs before they are stored, may add to them, and may refuse them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from euterpe.model.errors import EuterpeError, Unsupported
from euterpe.model.priority import Priority
from euterpe.model.submitting.submission import Submission, check
from euterpe.worker.handling.hooks import name_of

T = TypeVar("T")


class NewJob:
    """A job that is about to be stored. Submit middleware receives it, and may change `tags` and `correlation_id`, and
    nothing else.

    Example:
        @queue.submit_middleware
        async def add_tenant(jobs, call_next):
            for job in jobs:
                job.tags["tenant"] = tenant.get()
            await call_next()
    """

    __slots__ = ("_submission", "correlation_id", "tags")

    def __init__(self, submission: Submission) -> None:
        self._submission = submission
        self.tags: dict[str, str] = dict(submission.tags or {})
        self.correlation_id: str | None = submission.correlation_id

    def __repr__(self) -> str:
        return f"<new job {self.type}>"

    @property
    def type(self) -> str:
        """The name of its job type."""
        return self._submission.type

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return self._submission.queue

    @property
    def priority(self) -> Priority:
        """The priority, before the dependencies are looked at."""
        return Priority(self._submission.priority)

    @property
    def payload(self) -> Any:  # the caller knows its form
        """The decoded arguments; bytes stay bytes. Changing them does not change the job."""
        submission = self._submission
        return submission.payload if submission.payload_format == "bytes" else msgspec.json.decode(submission.payload)


SubmitNext = Callable[[], Awaitable[None]]
SubmitMiddleware = Callable[[Sequence[NewJob], SubmitNext], Awaitable[None]]


async def submit_through(
    middleware: Sequence[SubmitMiddleware],
    submissions: Sequence[Submission],
    payload_limit: int,
    store: Callable[[Sequence[Submission]], Awaitable[T]],
) -> T:
    """What `store` answers. What it raises is raised here too, also where a middleware swallowed it: nobody may take
    a job for stored that is not."""
    jobs = tuple(NewJob(submission) for submission in submissions)
    innermost = _InnermostCall(jobs, submissions, payload_limit, store)
    call: SubmitNext = innermost.store
    for one in reversed(middleware):
        call = partial(_step, one, jobs, call)
    await call()
    return innermost.answer()


def submit_through_blocking(
    middleware: Sequence[SubmitMiddleware],
    submissions: Sequence[Submission],
    payload_limit: int,
    store: Callable[[Sequence[Submission]], T],
) -> T:
    """The same for code that cannot await. Unsupported: a middleware waits for something."""

    async def at_once(submissions: Sequence[Submission]) -> T:
        return store(submissions)

    return _run_at_once(submit_through(middleware, submissions, payload_limit, at_once))


def _run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise Unsupported("a submit middleware waits for something; a submit on a blocking connection cannot wait for it")


class _InnermostCall(Generic[T]):
    """Where the jobs come out of the middleware, once."""

    def __init__(
        self,
        jobs: Sequence[NewJob],
        submissions: Sequence[Submission],
        payload_limit: int,
        store: Callable[[Sequence[Submission]], Awaitable[T]],
    ) -> None:
        self._jobs = jobs
        self._submissions = submissions
        self._payload_limit = payload_limit
        self._store = store
        self._answers: list[T] = []
        self._error: BaseException | None = None
        self._was_called = False

    async def store(self) -> None:
        if self._was_called:
            raise EuterpeError("a submit middleware called call_next twice; the jobs are stored once")
        self._was_called = True
        try:
            changed = list(map(self._changed, self._jobs, self._submissions))
            self._answers.append(await self._store(changed))
        except BaseException as error:
            self._error = error
            raise

    def answer(self) -> T:
        if self._error is not None:
            raise self._error
        return self._answers[0]

    def _changed(self, job: NewJob, before: Submission) -> Submission:
        tags = job.tags or None
        if tags == (before.tags or None) and job.correlation_id == before.correlation_id:
            return before
        after = msgspec.structs.replace(before, tags=tags, correlation_id=job.correlation_id)
        check(after, self._payload_limit)
        return after


async def _step(middleware: SubmitMiddleware, jobs: Sequence[NewJob], call: SubmitNext) -> None:
    called = False

    async def call_next() -> None:
        nonlocal called
        called = True
        await call()

    await middleware(jobs, call_next)
    if not called:
        raise EuterpeError(
            f"submit middleware {name_of(middleware)} did not await call_next(), so nothing was stored; "
            "raise an error of your own to refuse a job"
        )
