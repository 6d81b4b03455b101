"""Handlers that mean harm, or behave as if they did, and the exceptions they raise."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, tzinfo
from typing import Any, NoReturn

from euterpe.model.errors import PermanentError, TemporaryError


class PanicException(BaseException):
    """What a Rust extension raises: no Exception, so that `except Exception` lets it through."""


class NoWords(Exception):
    """Nothing of it can be shown."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    def __repr__(self) -> str:
        raise SystemExit(3)


class OddText(str):
    """What some `__str__` gives: a text whose methods fail."""

    def replace(self, *_: Any) -> NoReturn:
        raise PanicException

    def encode(self, *_: Any, **__: Any) -> NoReturn:
        raise PanicException


class TextOfOddKind(Exception):
    def __str__(self) -> str:
        return OddText("odd")


class NamelessKind(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            raise PanicException
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=NamelessKind):
    """Its class does not tell its name."""


class NoClass(Exception):
    """Its attributes fail, the ones that isinstance and traceback look at too."""

    @property  # type: ignore[misc]  # that is the oddity
    def __class__(self) -> type:
        raise PanicException

    def __getattr__(self, name: str) -> NoReturn:
        raise PanicException(name)


class OddNumber(float):
    def __gt__(self, other: object) -> bool:
        raise PanicException

    def __mul__(self, other: object) -> NoReturn:
        raise ZeroDivisionError


def looped() -> Exception:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def deep(levels: int) -> Exception:
    error = ValueError(0)
    for level in range(levels):
        above = ValueError(level)
        above.__cause__ = error
        error = above
    return error


def recursing(n: int = 0) -> int:
    return recursing(n + 1) + 1


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> NoReturn:
        raise error

    return act


def no_number() -> NoReturn:
    raise PermanentError("x", code=NoWords())  # type: ignore[arg-type]  # a handler's mistake


def wants_nonsense(retry_after: Any) -> Callable[[], Any]:
    return raising(TemporaryError("later", retry_after=retry_after))


RAISES: dict[str, tuple[Callable[[], Any], str]] = {
    "a panic": (raising(PanicException("index out of bounds")), "PanicException"),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    "GeneratorExit": (raising(GeneratorExit()), "GeneratorExit"),
    "BaseExceptionGroup": (raising(BaseExceptionGroup("two", [PanicException(), KeyError()])), "BaseExceptionGroup"),
    "sys.exit": (lambda: sys.exit("goodbye"), "SystemExit"),
    "CancelledError": (raising(asyncio.CancelledError("mine")), "CancelledError"),
    "no words": (raising(NoWords()), "NoWords"),
    "a text of an odd kind": (raising(TextOfOddKind()), "TextOfOddKind"),
    "no name": (raising(Nameless("x")), "Nameless"),
    "no class": (raising(NoClass("x")), "NoClass"),
    "a loop of causes": (raising(looped()), "ValueError"),
    "many causes": (raising(deep(3000)), "ValueError"),
    "recursion": (recursing, "RecursionError"),
    "a code that is none": (no_number, "PermanentError"),
    "retry_after nan": (wants_nonsense(float("nan")), "temporary"),
    "retry_after inf": (wants_nonsense(float("-inf")), "temporary"),
    "retry_after list": (wants_nonsense(["soon"]), "temporary"),
    "retry_after odd": (wants_nonsense(OddNumber(1)), "temporary"),
    "retry_after no words": (wants_nonsense(NoWords()), "temporary"),
}
"""What a handler does, and the code of its job's error."""


class NoTimezone(tzinfo):
    """Fails while a time is encoded."""

    def utcoffset(self, _: object) -> NoReturn:
        raise LookupError("nowhere")


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


RESULTS: dict[str, Callable[[], Any]] = {
    "a generator": generator,
    "an async generator": async_generator,
    "a lock": asyncio.Lock,
    "a function": lambda: print,
    "a nest": lambda: nested(100_000),
    "a loop": lambda: (loop := [0]).append(loop) or loop,  # type: ignore[func-returns-value, arg-type]
    "8 MB": lambda: "x" * 8_000_000,
    "a lone surrogate": lambda: "\ud800",
    "a time that is nowhere": lambda: datetime(2026, 11, 16, tzinfo=NoTimezone()),  # type: ignore[abstract]  # that is the oddity
}
