"""How one configured value is read: from YAML, from the environment's text, and back into what people write.

A `Kind` is three functions and a sentence that says what it expects; a value that does not fit raises
`RefusedValue`, and the loader turns that into a problem which names the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from euterpe.config.yaml_file import flow_value
from euterpe.model.duration import InvalidDuration, format_duration, parse_duration_us

T = TypeVar("T")


class RefusedValue(ValueError):
    """The value does not fit; the kind's `expected` says what would. Its message, if any, is a hint."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What a key takes. `read` gets what YAML gives; `from_text` turns an environment variable into that."""

    expected: str
    read: Callable[[object], T]
    from_text: Callable[[str], object]
    show: Callable[[T], str] = str


def _number_or_text(text: str) -> object:
    """A number if it is written as one; the kind refuses what is neither."""
    given = text.strip()
    for number in (int, float):
        try:
            return number(given)
        except ValueError:
            continue
    return given


def _flow(text: str) -> object:
    try:
        return flow_value(text)
    except ValueError:
        raise RefusedValue from None


_PLAIN: Final = re.compile(r"[A-Za-z_.][A-Za-z0-9_.:-]*", re.ASCII)


def written(value: str) -> str:
    """A text as it may stand in a list or map of YAML."""
    return value if _PLAIN.fullmatch(value) else msgspec.json.encode(value).decode()


_FLAGS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def _require(fits: bool) -> None:
    if not fits:
        raise RefusedValue


def whole(at_least: int, at_most: int | None = None) -> Kind[int]:
    """A whole number in a range."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise RefusedValue
        _require(at_least <= value and (at_most is None or value <= at_most))
        return value

    upper = "or more" if at_most is None else f"to {at_most}"
    return Kind(f"a whole number, {at_least} {upper}", read, _number_or_text)


def port() -> Kind[int]:
    return whole(0, 65_535)


def share() -> Kind[float]:
    """A number above 0 and at most 1."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RefusedValue
        _require(math.isfinite(value) and 0 < value <= 1)
        return float(value)

    return Kind("a number above 0 and at most 1", read, _number_or_text)


def flag() -> Kind[bool]:
    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise RefusedValue
        return value

    def from_text(text: str) -> object:
        return _FLAGS.get(text.strip().lower(), text.strip())

    return Kind("true or false", read, from_text, lambda value: "true" if value else "false")


def flag_or_auto() -> Kind[bool | None]:
    """None is `auto`: what fits the rest of the configuration."""
    plain = flag()

    def read(value: object) -> bool | None:
        return None if value == "auto" else plain.read(value)

    return Kind(
        "true, false or auto", read, plain.from_text, lambda value: "auto" if value is None else plain.show(value)
    )


def _text_of(value: object) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise RefusedValue
    return value


def text() -> Kind[str]:
    """Any text, also none."""
    return Kind("text (a number needs quotes)", _text_of, lambda given: given)


def name() -> Kind[str]:
    """Text that says something: the name of a list, key, queue or folder."""

    def read(value: object) -> str:
        named = _text_of(value)
        _require(named.strip() == named != "")
        return named

    return Kind("text that is not empty", read, lambda given: given.strip())


def matching(pattern: str, expected: str) -> Kind[str]:
    """Text of a given shape. The patterns are ours, never a user's."""
    shape = re.compile(pattern, re.ASCII)

    def read(value: object) -> str:
        matched = _text_of(value)
        _require(shape.fullmatch(matched) is not None)
        return matched

    return Kind(expected, read, lambda given: given.strip())


def key_pattern() -> Kind[str]:
    """A Redis key with one place for the worker's id, as printf writes it."""
    return matching(r"[^%]*%s[^%]*", "a Redis key with one %s, where the worker's id goes")


def address() -> Kind[str]:
    """host:port, where an IPv6 host stands in brackets."""
    shape = matching(r"(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):[0-9]{1,5}", "host:port, such as 127.0.0.1:6379")

    def read(value: object) -> str:
        given = shape.read(value)
        _require(1 <= int(given.rpartition(":")[2]) <= 65_535)
        return given

    return Kind(shape.expected, read, shape.from_text)


_NEED_A_HOST: Final = frozenset({"http", "https"})  # files have none, and `redis://` alone is the section `redis`


def url(*schemes: str) -> Kind[str]:
    """An address with one of these schemes."""

    def read(value: object) -> str:
        given = _text_of(value)
        try:
            parts = urlsplit(given)
            if parts.scheme.partition("+")[0] in schemes and "+" in parts.scheme:
                raise RefusedValue(f"write it without +{parts.scheme.partition('+')[2]}; the driver is chosen for you")
            _require(parts.scheme in schemes)
            _require(parts.scheme not in _NEED_A_HOST or bool(parts.hostname))
            _require(parts.port is None or parts.port > 0)
        except RefusedValue:
            raise
        except ValueError:
            raise RefusedValue from None
        return given

    return Kind(
        f"a URL that starts with {', '.join(f'{scheme}://' for scheme in schemes)}",
        read,
        lambda given: given.strip(),
    )


def choice(*words: str) -> Kind[str]:
    def read(value: object) -> str:
        _require(isinstance(value, str) and value in words)
        return str(value)

    return Kind(f"one of {', '.join(words)}", read, lambda given: given.strip())


def duration(at_least_us: int = 0) -> Kind[int]:
    """Microseconds, written as 500ms, 30s, 1h30m; a bare number is seconds."""

    def read(value: object) -> int:
        try:
            duration_us = parse_duration_us(value)
        except InvalidDuration:
            raise RefusedValue from None
        _require(duration_us >= at_least_us)
        return duration_us

    least = f", at least {format_duration(at_least_us)}" if at_least_us else ""
    return Kind(f"a duration such as 500ms, 30s or 1h30m{least}", read, _number_or_text, format_duration)


_SIZES: Final = {
    "GiB": 1024**3,
    "GB": 10**9,
    "MiB": 1024**2,
    "MB": 10**6,
    "KiB": 1024,
    "KB": 1000,
    "B": 1,
}


def size(at_least_bytes: int, at_most_bytes: int | None = None) -> Kind[int]:
    """Bytes, written as a number or as 64KB, 1MB, 2GiB."""

    def read(value: object) -> int:
        size_bytes = _size_bytes(value)
        _require(at_least_bytes <= size_bytes and (at_most_bytes is None or size_bytes <= at_most_bytes))
        return size_bytes

    upper = "" if at_most_bytes is None else f" to {format_size(at_most_bytes)}"
    return Kind(
        f"a size in bytes or such as 64KB, 1MB or 2GiB, {format_size(at_least_bytes)}{upper or ' or more'}",
        read,
        _number_or_text,
        format_size,
    )


def _size_bytes(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    matched = re.fullmatch(r"([0-9]{1,15}) ?([KMG]i?B|B)", _text_of(value).strip(), re.ASCII)
    if matched is None:
        raise RefusedValue
    return int(matched[1]) * _SIZES[matched[2]]


def format_size(size_bytes: int) -> str:
    """The largest unit that says it without a fraction."""
    for unit, unit_bytes in _SIZES.items():
        if size_bytes >= unit_bytes and size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes}{unit}"
    return f"{size_bytes}B"


def names(at_least: int = 0, item: Kind[str] | None = None) -> Kind[tuple[str, ...]]:
    """A list of different texts; in the environment separated by commas."""
    one = item or name()

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise RefusedValue
        given = tuple(one.read(element) for element in value)
        _require(len(given) >= at_least and len(set(given)) == len(given))
        return given

    def from_text(given: str) -> object:
        return _flow(given) if given.lstrip().startswith("[") else [part.strip() for part in given.split(",")]

    what = "different names" if item is None else f"different entries, each {item.expected}"
    least = "" if at_least == 0 else f", at least {at_least}"
    return Kind(f"a list of {what}{least}", read, from_text, lambda value: f"[{', '.join(map(written, value))}]")


def name_map() -> Kind[Mapping[str, str]]:
    """A map from name to name; in the environment as JSON or YAML."""
    one = name()

    def read(value: object) -> Mapping[str, str]:
        if not isinstance(value, dict) or not value:
            raise RefusedValue
        return {one.read(key): one.read(named) for key, named in value.items()}

    return Kind(
        "a map from name to name, such as {high: jobs_high}",
        read,
        _flow,
        lambda value: "{" + ", ".join(f"{written(key)}: {written(named)}" for key, named in value.items()) + "}",
    )
