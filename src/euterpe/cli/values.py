"""Values on the command line: durations, job ids, tags and JSON, each refused with a word on what would fit."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from euterpe.backends.engines import is_redis
from euterpe.cli.session import CliSession
from euterpe.model.duration import parse_duration_us
from euterpe.model.errors import InvalidInput


class ParamType(click.ParamType):  # type: ignore[type-arg]  # generic only in the newest click
    """The base of every value here."""


class Duration(ParamType):
    """`500ms`, `30s`, `1h30m`: microseconds for the command."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_duration_us(value)
        except InvalidInput as error:
            self.fail(error.reason, param, ctx)


class JobId(ParamType):
    """A UUID, in the spelling that is stored. `listed_by`: the command that shows such ids. On Redis lists other
    programs choose the ids of their jobs as they like."""

    name = "id"

    def __init__(self, listed_by: str = "euterpe jobs list") -> None:
        self._listed_by = listed_by

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        session = None if ctx is None else ctx.find_object(CliSession)
        if self is JOB_ID and session is not None and is_redis(session.url):
            return str(value)
        try:
            return str(click.UUID.convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"{value!r} is not an id; `{self._listed_by}` shows them in full", param, ctx)


class Pair(ParamType):
    """`name=value`."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, content = str(value).partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not name=value", param, ctx)
        return key, content


class Names(ParamType):
    """`media,default`."""

    name = "a,b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(part.strip() for part in str(value).split(",") if part.strip()))
        if not names:
            self.fail("name at least one, separated by commas", param, ctx)
        return names


class Instant(ParamType):
    """RFC 3339. Without an offset it is refused, or taken for UTC."""

    name = "time"

    def __init__(self, *, is_utc: bool = False) -> None:
        self._is_utc = is_utc

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            at = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time; write it as 2026-01-31T18:00:00Z", param, ctx)
        if at.tzinfo is None and self._is_utc:
            return at.replace(tzinfo=UTC)
        if at.tzinfo is None:
            self.fail(f"{value!r} has no offset; end it with Z or +01:00", param, ctx)
        return at


class Json(ParamType):
    """A JSON text; `-` reads it from standard input. An empty one is an empty object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        text = sys.stdin.read() if value == "-" else value
        try:
            return msgspec.json.decode(text) if text.strip() else {}
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            self.fail(f"is not JSON: {error}", param, ctx)


DURATION = Duration()
JOB_ID = JobId()
EVENT_ID = JobId(listed_by="euterpe outbox list")
OPERATION_ID = JobId(listed_by="euterpe operations list")
PAIR = Pair()
NAMES = Names()
INSTANT = Instant()
UTC_INSTANT = Instant(is_utc=True)
JSON = Json()
