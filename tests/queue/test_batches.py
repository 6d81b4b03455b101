"""A batch says once what its jobs have in common; what they do not have in common must not get lost by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.queue.definition.job_type import Call
from euterpe.queue.queue import Queue
from euterpe.queue.submitting.references import PREVIOUS
from euterpe.queue.submitting.submit_middleware import NewJob


async def test_jobs_of_one_batch_may_differ_in_everything(queue: Queue) -> None:
    @queue.job("mail")
    async def mail(number: int) -> None: ...

    @queue.job("print")
    async def paper(number: int) -> None: ...

    calls = [
        mail.with_args(number=1),
        mail.with_args(number=2),
        mail.with_args(number=3).with_options(priority="high"),
        paper.with_args(number=4),
        mail.with_args(number=5),
    ]
    handles = await queue.submit_many(calls)
    stored = [await queue.get(handle.id) for handle in handles]
    assert [(job.type, job.priority.name, job.payload) for job in stored if job is not None] == [
        ("mail", "NORMAL", {"number": 1}),
        ("mail", "NORMAL", {"number": 2}),
        ("mail", "HIGH", {"number": 3}),
        ("print", "NORMAL", {"number": 4}),
        ("mail", "NORMAL", {"number": 5}),
    ]


async def test_jobs_of_one_batch_may_differ_in_one_thing_alone(queue: Queue) -> None:
    @queue.job("mail")
    async def mail(number: int) -> None: ...

    @queue.job("print")
    async def paper(number: int) -> None: ...

    async def stored(*calls: Call[None]) -> list[tuple[str, str]]:
        jobs = [await queue.get(handle.id) for handle in await queue.submit_many(calls)]
        return [(job.type, job.priority.name) for job in jobs if job is not None]

    call = mail.with_args(number=1)
    assert await stored(call, paper.with_args(number=1)) == [("mail", "NORMAL"), ("print", "NORMAL")]
    assert await stored(call, call.with_options(priority="high")) == [("mail", "NORMAL"), ("mail", "HIGH")]


async def test_a_middleware_may_change_one_job_of_a_batch(queue: Queue) -> None:
    @queue.job("mail")
    async def mail(number: int) -> None: ...

    @queue.submit_middleware
    async def mark_the_last(jobs: Sequence[NewJob], call_next: Callable[[], Awaitable[None]]) -> None:
        jobs[-1].tags["last"] = "yes"
        await call_next()

    handles = await queue.submit_many([mail.with_args(number=number) for number in range(3)])
    stored = [await queue.get(handle.id) for handle in handles]
    assert [job.tags for job in stored if job is not None] == [{}, {}, {"last": "yes"}]


async def test_a_reference_behind_a_plain_call_is_refused_as_it_is_alone(queue: Queue) -> None:
    @queue.job("mail")
    async def mail(number: int) -> None: ...

    with pytest.raises(InvalidInput, match="stands in a chain"):
        await queue.submit_many([mail.with_args(number=1), mail.with_args(number=PREVIOUS)])
    assert (await queue.stats()).by_type == {}
