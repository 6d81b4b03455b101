"""The types that arguments and results may have: as they were given, in the handler and in the hand of who waits."""

from __future__ import annotations

import ipaddress
import socket
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from euterpe import testing
from euterpe.model.errors import InvalidInput
from euterpe.queue.definition.job_type import definition_of, payload_of
from euterpe.queue.definition.options import encode_payload
from euterpe.queue.queue import Queue
from tests.worker.inline import working


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Item(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    sku: str = pydantic.Field(pattern="^[A-Z]+$")
    price: Decimal
    bought_at: datetime | None = None


class Order(pydantic.BaseModel):
    items: list[Item]
    folder: Path = Path()


@dataclass
class Box:
    label: str
    where: Path
    item: Item | None = None


ITEM = Item(sku="TEA", price=Decimal("3.50"), bought_at=datetime(2026, 1, 7, tzinfo=UTC))
GIVEN: dict[str, Any] = {
    "colour": Colour.RED,
    "level": Level.HIGH,
    "point": Point(1, 2),
    "box": Box("b", Path("/data/in.wav"), ITEM),
    "order": Order(items=[ITEM], folder=Path("out")),
    "orders": {"a": [Order(items=[])]},
    "path": Path("a/b"),
    "pure": PurePosixPath("/x"),
    "maybe": None,
    "pause": timedelta(seconds=90),
    "key": UUID("2f1cf4ac-6b7e-4d7c-9a52-5f2f8e0b3a11"),
}


async def everything(
    colour: Colour,
    level: Level,
    point: Point,
    box: Box,
    order: Order,
    orders: dict[str, list[Order]],
    path: Path,
    pure: PurePosixPath,
    maybe: Path | None,
    pause: timedelta,
    key: UUID,
) -> Box:
    assert order.items[0].price == Decimal("3.50")
    return box


async def test_what_is_submitted_is_what_the_handler_gets_and_what_it_returns_comes_back_typed(queue: Queue) -> None:
    jobtype = queue.job("everything")(everything)
    assert definition_of(jobtype).handler.signature.decode(payload_of(jobtype.with_args(**GIVEN))) == GIVEN
    async with working(queue):
        job = await jobtype.submit(**GIVEN)
        assert await job.result("30s") == GIVEN["box"]


def shrink(box: Box) -> Item | None:
    return box.item


async def test_a_process_gets_the_same_types(queue: Queue) -> None:
    jobtype = queue.job("shrink", process=True)(shrink)
    async with working(queue):
        assert await (await jobtype.submit(box=GIVEN["box"])).result("20s") == ITEM


@pytest.mark.parametrize(
    ("argument", "value", "field", "word"),
    [
        ("order", {"items": [{"sku": "tea", "price": "1"}]}, "order", "items.0.sku: String should match pattern"),
        ("order", {"items": 7}, "order", "items: Input should be a valid array (an arg"),
        ("path", 7, "path", "Expected a path as text, got int"),
        ("colour", "blue", "colour", "Invalid enum value 'blue'"),
        ("key", "no uuid", "key", "Invalid UUID"),
        ("point", {"x": "1"}, "point.x", "Expected `int`, got `str`"),
        ("box", socket.socket, "box", "type is no type that travels as JSON"),
        ("box", threading.Lock(), "box", "lock is no type that travels as JSON"),
    ],
)
def test_what_does_not_fit_is_refused_at_submit(
    unopened: Queue, argument: str, value: Any, field: str, word: str
) -> None:
    jobtype = unopened.job("everything")(everything)
    with pytest.raises(InvalidInput) as refused:
        jobtype.with_args(**{**GIVEN, argument: value})
    assert refused.value.field == field
    assert word in refused.value.reason


@dataclass
class Measured:
    value: float | None
    note: str | None = None


async def measure(what: Measured, more: dict[str, Any] | None = None) -> Any: ...


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_refused_and_never_becomes_null(unopened: Queue, number: float) -> None:
    jobtype = unopened.job("measure")(measure)
    with pytest.raises(InvalidInput, match=f"^what: .*{number} is not a JSON number"):
        jobtype.with_args(what=Measured(number))
    with pytest.raises(InvalidInput, match=r"^more: "):
        jobtype.with_args(what=Measured(None), more={"deep": [{"x": (1, {2, number})}]})
    with pytest.raises(InvalidInput, match=r"^payload: "):
        encode_payload({"x": [number]})
    jobtype.with_args(what=Measured(None), more={"x": [None, 1.5]})


async def test_a_result_that_json_does_not_have_fails_the_job(queue: Queue) -> None:
    async def divide() -> list[float | None]:
        return [None, float("inf")]

    jobtype = queue.job("divide", max_attempts=3)(divide)
    async with working(queue):
        ended = await (await jobtype.submit()).wait("20s")
    assert (str(ended.state), ended.error and ended.error.code) == ("failed", "bad_result")
    assert ended.error is not None
    assert "inf is not a JSON number" in ended.error.message


async def connection(ctx: Any, sock: socket.socket) -> None: ...


async def address(at: ipaddress.IPv4Address) -> None: ...


async def two_models(what: Item | Order) -> None: ...


@pytest.mark.parametrize(
    ("function", "argument", "word"),
    [
        (connection, "sock", "socket is no type that travels as JSON"),
        (address, "at", "IPv4Address is no type that travels as JSON"),
        (two_models, "what", "custom type"),
    ],
)
def test_a_type_that_cannot_travel_is_refused_at_the_decorator(
    unopened: Queue, function: Any, argument: str, word: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        unopened.job("wrong")(function)
    assert f"argument {argument} cannot travel as JSON" in str(refused.value)
    assert word in str(refused.value)
    assert "use a dataclass, a msgspec struct or a pydantic model" in str(refused.value)


async def test_a_test_finds_jobs_by_their_typed_arguments(unopened: Queue) -> None:
    @unopened.job("store")
    async def store(order: Order, path: Path) -> None: ...

    async with testing.queue(unopened):
        await store.submit(GIVEN["order"], Path("a"))
        testing.assert_submitted(unopened, store, path=Path("a"), order=GIVEN["order"])
        testing.assert_not_submitted(unopened, store, path=Path("b"))
