"""Results that flow from a job to those that depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from euterpe import testing
from euterpe.model.errors import InvalidInput
from euterpe.model.state import State
from euterpe.queue.queue import Queue
from euterpe.queue.submitting.references import PREVIOUS, result_of
from euterpe.queue.submitting.workflow import Workflow
from euterpe.worker.context import Context
from tests.worker.inline import working


@dataclass
class Rows:
    day: str
    count: int


class Steps:
    """Three handlers: typed rows, their sum, and one that tells what it was given."""

    def __init__(self, queue: Queue) -> None:
        @queue.job("extract")
        async def extract(day: str) -> Rows:
            return Rows(day, len(day))

        @queue.job("total")
        def total(ctx: Context, parts: list[Rows], factor: int = 1) -> int:
            assert len(ctx.depends_on) >= len(parts)
            return factor * sum(part.count for part in parts)

        @queue.job("tell")
        async def tell(rows: Rows, where: Path | None = None) -> str:
            return f"{type(rows).__name__} {rows.day} {where!s}"

        self.extract, self.total, self.tell = extract, total, tell


async def test_a_node_in_an_argument_is_waited_for_and_handed_on_typed(queue: Queue) -> None:
    steps = Steps(queue)
    async with working(queue):
        async with queue.workflow() as flow:
            a, b = (flow.add(steps.extract, day=day) for day in ("monday", "friday"))
            c = flow.add(steps.tell, rows=a)
            d = flow.add(steps.total, parts=[b, a, b], after=[c])
            e = flow.add("unknown.here", {"of": [d]}, options={"queue": "other"})
        assert await c.result("30s") == "Rows monday None"
        assert await d.result("30s") == 18
        assert (await queue.get(d.id)).depends_on == (b.id, a.id, c.id)
        assert (await queue.get(e.id)).payload == {"of": [{"$euterpe.result": 0}]}
        # A stored job's handle is as good, and the type checker is content with `result_of`.
        later = await steps.tell.submit(rows=result_of(a.handle), where=Path("/tmp"))
        assert await later.result("30s") == "Rows monday /tmp"
        assert (await queue.get(later.id)).depends_on == (a.id,)
        by_name = await queue.submit("total", {"parts": [a], "factor": 3})
        assert await by_name.result("30s") == 18


async def test_a_chain_hands_on_where_it_is_asked_to_and_a_fan_in_gets_a_list_in_order(queue: Queue) -> None:
    steps = Steps(queue)
    async with working(queue):
        chain = await queue.chain([steps.extract.with_args("mon"), steps.tell.with_args(rows=PREVIOUS)])
        assert await chain[-1].result("30s") == "Rows mon None"
        days = [steps.extract.with_args(day) for day in ("a", "bb", "ccc")]
        *_, last = await queue.fan_out(days, then=steps.total.with_args(parts=PREVIOUS, factor=100))
        assert await last.result("30s") == 600
        alone = await queue.fan_out(days[:1], then=steps.total.with_args(parts=PREVIOUS))
        assert await alone[-1].result("30s") == 1
    assert [part["$euterpe.result"] for part in (await queue.get(last.id)).payload["parts"]] == [0, 1, 2]


async def test_what_does_not_fit_beside_a_reference_is_refused_at_submit(queue: Queue) -> None:
    steps = Steps(queue)
    first = await steps.extract.submit("mon")
    with pytest.raises(InvalidInput, match=r"factor: Expected `int`, got `str` \(an argument of total\)"):
        steps.total.with_args(parts=[result_of(first)], factor="three")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="unexpected keyword argument 'colour'"):
        steps.tell.with_args(rows=result_of(first), colour="red")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="stands in a chain"):
        await steps.tell.submit(rows=PREVIOUS)
    with pytest.raises(InvalidInput, match="stands in a chain"):
        await queue.chain([steps.tell.with_args(rows=PREVIOUS)])
    with pytest.raises(InvalidInput, match="after_any does not wait"):
        await steps.tell.options(dependency="after_any").submit(rows=result_of(first))

    @queue.job("any")
    async def anything(**said: object) -> None: ...

    with pytest.raises(InvalidInput, match="reserved name"):
        await anything.submit(x={"$euterpe.result": 0})
    assert (await queue.stats()).by_type.keys() == {"extract"}


async def test_a_dependency_that_fails_leaves_no_reference_to_resolve(queue: Queue) -> None:
    steps = Steps(queue)

    @queue.job("broken", max_attempts=1)
    async def broken() -> Rows:
        raise ValueError("no rows")

    async with working(queue):
        async with queue.workflow() as flow:
            node = flow.add(steps.tell, rows=flow.add(broken))
        ended = await node.handle.wait("30s")
    assert (ended.state, ended.error and ended.error.code) == (State.DEAD_LETTER, "dependency_ended")


async def test_a_result_of_another_type_than_the_argument_is_told_in_the_jobs_error(unopened: Queue) -> None:
    steps = Steps(unopened)

    @unopened.job("wrong")
    async def wrong() -> str:
        return "no rows at all"

    async with testing.queue(unopened):
        async with unopened.workflow() as flow:
            node = flow.add(steps.tell, rows=flow.add(wrong))
        await testing.drain(unopened)
        ended = await unopened.get(node.id)
    assert ended.error is not None
    assert (ended.state, ended.error.code) == (State.FAILED, "bad_payload")
    assert "Expected `object`, got `str` - at `$.rows`" in ended.error.message


async def test_a_workflow_can_be_stored_again_with_its_key_and_finds_the_same_jobs(queue: Queue) -> None:
    steps = Steps(queue)
    found = []
    for _ in range(2):
        async with queue.workflow(idempotency_key="week 46") as flow:
            a = flow.add(steps.extract, day="mon")
            flow.add(steps.total, parts=[a])
        found.append([node.id for node in flow.nodes])
    assert found[0] == found[1]
    with pytest.raises(InvalidInput, match="stored under its idempotency key"):
        flow.add(steps.extract, day="tue")


async def test_jobs_are_added_to_a_workflow_that_runs(queue: Queue) -> None:
    steps = Steps(queue)
    async with working(queue):
        async with queue.workflow() as flow:
            a = flow.add(steps.extract, day="mon")
        assert (await a.result("30s")).count == 3
        b = flow.add(steps.extract, day="friday")
        c = flow.add(steps.total, parts=[a, b])
        await flow.store()
        await flow.store()
        assert await c.result("30s") == 9
        async with queue.workflow() as more:  # by ids alone, from anywhere
            d = more.add(steps.extract, day="x", after=[c.id])
        assert (await d.result("30s")).count == 1
    assert (await queue.stats()).by_state == {"completed": 4}


async def test_a_workflow_includes_others(queue: Queue) -> None:
    steps = Steps(queue)

    def week(flow: Workflow, days: list[str]) -> Workflow:
        flow.add(steps.total, parts=[flow.add(steps.extract, day=day) for day in days])
        return flow

    @queue.job("sum")
    async def add_up(weeks: list[int]) -> int:
        return sum(weeks)

    async with working(queue):
        async with queue.workflow() as flow:
            start = flow.add(steps.extract, day="start")
            first = flow.include(week(queue.workflow(), ["a", "bb"]), after=[start])
            second = flow.include(week(queue.workflow(tags={"week": "2"}), ["ccc"]), after=first)
            end = flow.add(add_up, weeks=[*first, *second])
        assert await end.result("30s") == 6
    assert len(flow.nodes) == 7
    assert (await queue.get(flow.nodes[1].id)).depends_on == (start.id,)
    assert (await queue.get(second[0].id)).tags == {"week": "2"}
    assert (await queue.get(flow.nodes[4].id)).depends_on == (first[0].id,)
    with pytest.raises(InvalidInput, match="not stored yet"):
        queue.workflow().include(flow)
