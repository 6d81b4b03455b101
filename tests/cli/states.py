"""Jobs in the states that a test needs, made through the store instead of by waiting for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from euterpe.backends.engines import Backend, connect
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Outcome, Success
from euterpe.model.events.outbox import Delivery
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission

T = TypeVar("T")


def with_store(url: str, act: Callable[[Backend], Awaitable[T]]) -> T:
    async def run() -> T:
        backend = connect(url)
        await backend.open()
        try:
            return await act(backend)
        finally:
            await backend.close()

    return asyncio.run(run())


def until(url: str, job_id: str, state: State) -> JobRow:
    """The job once it is in this state; the test's own timeout is the limit."""

    async def act(backend: Backend) -> JobRow:
        while (job := await backend.store.get(job_id)).state is not state:  # noqa: ASYNC110  # it changes elsewhere
            await asyncio.sleep(0.05)
        return job

    return with_store(url, act)


STACK = 'Traceback (most recent call last):\n  File "/srv/shop/printing.py", line 7, in render\nNoPaper: out of paper'


def dead_letters(url: str, *types: str) -> list[str]:
    """One job of each type whose only attempt failed."""
    broken = Failed(Failure(Category.TEMPORARY, "the printer is out of paper", "no_paper", stack=STACK))
    return settled(url, [Submission(type=job_type, max_attempts=1) for job_type in types], broken)


def completed(url: str, submission: Submission) -> str:
    return settled(url, [submission], Success(b'{"ok":true}'))[0]


def settled(url: str, submissions: list[Submission], outcome: Outcome) -> list[str]:
    async def act(backend: Backend) -> list[str]:
        ids = []
        for submission in submissions:
            submitted = await backend.store.submit(submission)
            request = ClaimRequest(worker_id="test:1", limit=1, types=(submission.type,))
            (claim,) = await backend.store.claim(request)
            assert claim.job.id == submitted.job_id
            await backend.store.settle([Report(claim, outcome)])
            ids.append(submitted.job_id)
        return ids

    return with_store(url, act)


def deliver_one(url: str, gives_up: str | None = None) -> str:
    """Take the next webhook event and settle it as delivered, or as given up, without sending anything."""

    async def act(backend: Backend) -> str:
        (event,) = await backend.store.outbox.claim("test:1", 1)
        delivery = Delivery(
            event_id=event.id,
            claim_version=event.claim_version,
            state="completed" if gives_up is None else "dead_letter",
            outcome="delivered" if gives_up is None else "refused",
            error=gives_up,
        )
        assert await backend.store.outbox.settle([delivery]) == {event.id}
        return event.id

    return with_store(url, act)
