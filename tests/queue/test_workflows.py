"""A workflow is stored whole, or not at all; its jobs run in the order that it says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.model.errors import (
    DependencyCycle,
    DependencyLimit,
    IdempotencyConflict,
    InvalidInput,
    JobFailed,
    PermanentError,
    UnknownDependency,
)
from euterpe.model.state import State
from euterpe.queue.definition.job_type import JobType
from euterpe.queue.queue import Queue, submitter_of
from tests.worker.inline import working

NO_SUCH_JOB = "2f1cf4ac-6b7e-4d7c-9a52-5f2f8e0b3a11"


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def step(queue: Queue, ran: list[str]) -> JobType[[str, bool], str]:
    @queue.job("step")
    async def step(name: str, fails: bool = False) -> str:
        await asyncio.sleep(0.01)
        ran.append(name)
        if fails:
            raise PermanentError("as told", code="told")
        return name

    return step


async def test_a_diamond_runs_in_order(queue: Queue, step: JobType[..., str], ran: list[str]) -> None:
    async with queue.workflow() as flow:
        a = flow.add(step, "a")
        b = flow.add(step, "b", after=[a])
        c = flow.add(step.with_args("c"), after=[a])
        d = flow.add("step", {"name": "d"}, after=[b, c], options={"priority": "low"})
        with pytest.raises(InvalidInput, match="not stored yet"):
            await d.result()
    assert [(await queue.get(node.id)).state for node in (a, b, c, d)] == [State.SCHEDULED] + [State.PENDING] * 3
    async with working(queue):
        assert await d.result("20s") == "d"
    assert ran[0] == "a"
    assert ran[-1] == "d"
    assert sorted(ran) == ["a", "b", "c", "d"]


async def test_an_exception_inside_the_block_stores_nothing(queue: Queue, step: JobType[..., str]) -> None:
    async def interrupted() -> None:
        async with queue.workflow() as flow:
            flow.add(step, "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await interrupted()
    assert (await queue.stats()).by_state == {}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda flow, step, a: flow.add(step, 7), InvalidInput),
        (lambda flow, step, a: flow.add(step), InvalidInput),
        (lambda flow, step, a: flow.add(step.with_args("b"), "c"), InvalidInput),
        (lambda flow, step, a: flow.add(step, "b", after=["no id"]), InvalidInput),
        (lambda flow, step, a: flow.add(step, "b", after=[a], after_any=[a]), InvalidInput),
        (lambda flow, step, a: flow.add(step, "b", after=[a], options={"depends_on": [a]}), InvalidInput),
        (lambda flow, step, a: flow.add(step, "b", options={"priority": "urgent"}), InvalidInput),
        (lambda flow, step, a: flow.add(object()), InvalidInput),
        (lambda flow, step, a: flow.add("step", {}, {}), InvalidInput),
        (lambda flow, step, a: flow.add(step, "b", after=[NO_SUCH_JOB]), UnknownDependency),
        (lambda flow, step, a: chain_of(flow, step, 101), DependencyLimit),
        (
            lambda flow, step, a: flow.add(step, "b", after=[flow.add(step, str(n)) for n in range(1001)]),
            DependencyLimit,
        ),
    ],
)
async def test_a_workflow_with_one_wrong_job_stores_nothing(
    queue: Queue, step: JobType[..., str], wrong: Any, error: type[Exception]
) -> None:
    async def build() -> None:
        async with queue.workflow() as flow:
            wrong(flow, step, flow.add(step, "a"))

    with pytest.raises(error):
        await build()
    assert (await queue.stats()).by_state == {}


def chain_of(flow: Any, step: Any, length: int) -> None:
    last: list[Any] = []
    for number in range(length):
        last = [flow.add(step, str(number), after=last)]


async def test_a_cycle_is_refused_and_nothing_is_stored(queue: Queue, step: JobType[..., str]) -> None:
    """The API cannot say one; a hand-made graph can."""
    from euterpe.model.submitting.batch import Draft, new_ids

    one, two = new_ids(2)
    drafts = [
        Draft(one, submitter_of(queue).make_submission(step.with_args("a"), depends_on=[two])),
        Draft(two, submitter_of(queue).make_submission(step.with_args("b"), depends_on=[one])),
    ]
    with pytest.raises(DependencyCycle):
        await submitter_of(queue).store_drafts(drafts, None, None)
    assert (await queue.stats()).by_state == {}


async def test_a_workflow_may_wait_for_jobs_stored_earlier(
    queue: Queue, step: JobType[..., str], ran: list[str]
) -> None:
    earlier = await step.submit("earlier")
    async with queue.workflow() as flow:
        later = flow.add(step, "later", after=[earlier])
    async with working(queue):
        await later.result("20s")
    assert ran == ["earlier", "later"]


async def test_after_any_goes_on_when_the_first_has_ended_however_it_ended(
    queue: Queue, step: JobType[..., str], ran: list[str]
) -> None:
    never = await queue.submit("nobody.runs.this")
    async with queue.workflow() as flow:
        bad = flow.add(step, "bad", True)
        then = flow.add(step, "then", after_any=[bad, never])
    async with working(queue):
        assert await then.result("20s") == "then"
    assert ran == ["bad", "then"]


async def test_what_waits_for_a_failed_job_fails_with_it(queue: Queue, step: JobType[..., str], ran: list[str]) -> None:
    async with queue.workflow() as flow:
        bad = flow.add(step, "bad", True)
        after = flow.add(step, "after", after=[bad])
    async with working(queue):
        with pytest.raises(JobFailed) as failed:
            await after.result("20s")
    assert failed.value.state is State.FAILED
    assert failed.value.error is not None
    assert bad.id in failed.value.error.message
    assert ran == ["bad"]


async def test_a_chain_runs_one_after_the_other(queue: Queue, step: JobType[..., str], ran: list[str]) -> None:
    jobs = await queue.chain([step.with_args(str(n)) for n in range(5)], tags={"run": "1"})
    async with working(queue):
        assert await jobs[-1].result("20s") == "4"
    assert ran == ["0", "1", "2", "3", "4"]
    assert (await queue.get(jobs[2].id)).tags == {"run": "1"}
    assert await queue.chain([]) == []


async def test_the_rest_of_a_chain_is_cancelled_when_a_link_fails(
    queue: Queue, step: JobType[..., str], ran: list[str]
) -> None:
    jobs = await queue.chain([step.with_args("0"), step.with_args("1", fails=True), *[step.with_args("2")] * 2])
    async with working(queue):
        await jobs[-1].wait("20s")
    assert [(await queue.get(job.id)).state for job in jobs] == [
        State.COMPLETED, State.FAILED, State.CANCELLED, State.CANCELLED,
    ]  # fmt: skip
    assert ran == ["0", "1"]


async def test_a_fan_out_runs_all_and_then_the_last(queue: Queue, step: JobType[..., str], ran: list[str]) -> None:
    jobs = await queue.fan_out([step.with_args(str(n)) for n in range(20)], then=step.with_args("then"))
    assert len(jobs) == 21
    async with working(queue):
        assert await jobs[-1].result("20s") == "then"
    assert ran[-1] == "then"
    assert len(ran) == 21
    alone = await queue.fan_out([step.with_args("a")])
    assert len(alone) == 1


async def test_a_key_makes_a_whole_workflow_happen_once(queue: Queue, step: JobType[..., str]) -> None:
    async def build(last: str) -> list[str]:
        async with queue.workflow(idempotency_key="nightly", tags={"a": "b"}) as flow:
            first = flow.add(step, "first")
            flow.add(step, last, after=[first])
        assert [node.id for node in flow.nodes] == [node.handle.id for node in flow.nodes]
        return [node.id for node in flow.nodes]

    ids = await build("last")
    assert await build("last") == ids
    with pytest.raises(IdempotencyConflict):
        await build("other")
    assert sum((await queue.stats()).by_state.values()) == 2


async def test_an_empty_workflow_is_nothing(queue: Queue) -> None:
    async with queue.workflow():
        pass
    assert (await queue.stats()).by_state == {}
