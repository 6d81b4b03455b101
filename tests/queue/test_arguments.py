"""A handler's own signature checks the arguments of its jobs, where they are written."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from euterpe.model.errors import InvalidInput
from euterpe.queue.definition.job_type import definition_of, payload_of
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context


class Colour(Enum):
    RED = "red"


class Range(msgspec.Struct, frozen=True):
    first: int
    last: int = 9


@dataclass
class Paper:
    size: Literal["a4", "letter"]
    colour: Colour = Colour.RED


def refused(queue: Queue, function: Any, *args: Any, **kwargs: Any) -> InvalidInput:
    jobtype = queue.job("render")(function)
    with pytest.raises(InvalidInput) as error:
        jobtype.with_args(*args, **kwargs)
    return error.value


async def render(
    ctx: Context, report_id: int, title: str = "untitled", pages: list[Range] | None = None, paper: Paper | None = None
) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "field", "word"),
    [
        ({"report_id": "seven"}, "report_id", "Expected `int`, got `str`"),
        ({"report_id": 7, "title": None}, "title", "Expected `str`, got `null`"),
        ({"report_id": 7, "pages": [{"first": "x"}]}, "pages[0].first", "Expected `int`, got `str`"),
        ({"report_id": 7, "paper": {"size": "a3"}}, "paper.size", "Invalid enum value 'a3'"),
        ({"report_id": object()}, "report_id", "cannot be written as JSON"),
        ({"report_id": 7, "title": "\ud800"}, "title", "cannot be written as JSON"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    unopened: Queue, arguments: dict[str, Any], field: str, word: str
) -> None:
    error = refused(unopened, render, **arguments)
    assert error.field == field
    assert word in error.reason
    assert "an argument of render" in error.reason


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "missing a required argument: 'report_id'"),
        ({"title": "x"}, "missing a required argument: 'report_id'"),
        ({"report_id": 7, "colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_a_missing_or_unknown_argument_is_named(unopened: Queue, arguments: dict[str, Any], word: str) -> None:
    error = refused(unopened, render, **arguments)
    assert error.field == "arguments of render"
    assert word in error.reason


async def test_nothing_is_stored_when_an_argument_does_not_fit(queue: Queue) -> None:
    jobtype = queue.job("render")(render)
    with pytest.raises(InvalidInput):
        await jobtype.submit(report_id="seven")  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(InvalidInput):
        await queue.submit("render", {"report_id": "seven"})
    with pytest.raises(InvalidInput):
        await queue.submit_many([jobtype.with_args(report_id=1), ("render", {"report_id": "seven"})])
    assert (await queue.stats()).by_state == {}


def test_arguments_may_be_given_by_place_or_by_name_and_defaults_stay_with_the_handler(unopened: Queue) -> None:
    jobtype = unopened.job("render")(render)
    assert payload_of(jobtype.with_args(7)) == b'{"report_id":7}'
    assert payload_of(jobtype.with_args(7, "Sales")) == b'{"report_id":7,"title":"Sales"}'
    job = jobtype.with_args(report_id=7)
    assert definition_of(jobtype).handler.signature.decode(payload_of(job)) == {
        "report_id": 7, "title": "untitled", "pages": None, "paper": None,
    }  # fmt: skip


def test_arguments_arrive_as_the_types_that_the_handler_names(unopened: Queue) -> None:
    async def typed(
        on: date, at: datetime, key: UUID, price: Decimal, raw: bytes, spans: list[Range], paper: Paper, tags: set[str]
    ) -> None: ...

    given: dict[str, Any] = {
        "on": date(2026, 1, 7),
        "at": datetime(2026, 1, 7, 9, 30, tzinfo=UTC),
        "key": UUID("2f1cf4ac-6b7e-4d7c-9a52-5f2f8e0b3a11"),
        "price": Decimal("19.90"),
        "raw": b"\x00\xff",
        "spans": [Range(1), Range(2, 3)],
        "paper": Paper("a4"),
        "tags": {"a"},
    }
    jobtype = unopened.job("typed")(typed)
    assert definition_of(jobtype).handler.signature.decode(payload_of(jobtype.with_args(**given))) == given


def test_a_default_that_can_change_is_not_shared_between_jobs(unopened: Queue) -> None:
    async def collect(into: list[int] = []) -> None: ...  # noqa: B006  # the mistake under test

    handler = definition_of(unopened.job("collect")(collect)).handler
    handler.signature.decode(b"{}")["into"].append(1)
    assert handler.signature.decode(b"{}") == {"into": []}


def test_a_handler_with_open_keywords_takes_any_json(unopened: Queue) -> None:
    async def anything(ctx: Context, **values: Any) -> None: ...

    jobtype = unopened.job("anything")(anything)
    assert payload_of(jobtype.with_args(a=1, b=[2])) == b'{"a":1,"b":[2]}'
    assert definition_of(jobtype).handler.signature.decode(b'{"a":1}') == {"a": 1}


def test_a_handler_without_hints_takes_any_json(unopened: Queue) -> None:
    async def loose(ctx, value):  # type: ignore[no-untyped-def]  # users do that
        ...

    jobtype = unopened.job("loose")(loose)
    assert definition_of(jobtype).handler.takes_context
    assert payload_of(jobtype.with_args(value={"x": 1})) == b'{"value":{"x":1}}'


def test_a_job_type_is_still_the_plain_function(unopened: Queue) -> None:
    @unopened.job("add")
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    assert add(1) == 3
    assert (add.__name__, add.__doc__, add.type) == ("add", "Adds.", "add")


def test_a_job_type_without_a_name_is_called_after_its_function(unopened: Queue) -> None:
    assert unopened.job()(render).type == f"{__name__}.render"
    bare = Queue("sqlite:///other.db").job(render)
    assert bare.type == f"{__name__}.render"


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_name_is_no_name(unopened: Queue, empty: str) -> None:
    with pytest.raises(InvalidInput, match="type: is empty"):
        unopened.job(empty)(render)


class Shop:
    async def method(self, ctx: Context) -> None: ...

    @classmethod
    async def of_class(cls) -> None: ...


async def generator() -> Any:
    yield 1


async def star(ctx: Context, *values: int) -> None: ...


async def only_by_place(ctx: Context, value: int, /) -> None: ...


async def not_json(ctx: Context, value: Queue) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (Shop, "is not a function"),
        (Shop.method, "is a method"),
        (Shop.__dict__["of_class"], "is a method"),
        (staticmethod(render), "is a method"),
        (generator, "is a generator"),
        (functools.partial(render), "has no name of its own"),
        (7, "is not a function"),
        (star, "argument values must be passable by name"),
        (only_by_place, "argument value must be passable by name"),
        (not_json, "cannot travel as JSON"),
    ],
)
def test_a_decorator_at_the_wrong_place_is_refused_there(unopened: Queue, wrong: Any, word: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        unopened.job("wrong")(wrong)
    assert word in str(refused.value)
    assert core_of(unopened).handlers.types == ()


def test_a_job_type_cannot_be_decorated_again(unopened: Queue) -> None:
    jobtype = unopened.job("render")(render)
    with pytest.raises(InvalidInput, match="is a job type already"):
        unopened.job("again")(jobtype)


def test_two_functions_cannot_share_a_job_type(unopened: Queue) -> None:
    unopened.job("render")(render)
    with pytest.raises(InvalidInput) as refused:

        @unopened.job("render")
        async def other() -> None: ...

    assert refused.value.field == "type"


def test_an_async_handler_cannot_run_in_a_process(unopened: Queue) -> None:
    with pytest.raises(InvalidInput) as refused:
        unopened.job("render", process=True)(render)
    assert refused.value.field == "process"
