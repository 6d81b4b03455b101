"""The query language of jobs: one text for the dashboard, the API and the command line.

    state:failed type:report.* queue:default tag.team:a error:timeout created:<1h "order 7"
    state:dead_letter ended:>7d fingerprint:0123456789ab replayed:no

Words are joined by "and". A value with spaces is quoted, and so is text that has a colon of its own. What is wrong is
told with the word and where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from euterpe.model.duration import InvalidDuration, parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.fingerprint import FINGERPRINT
from euterpe.model.reading.document import rfc3339
from euterpe.model.reading.views import SCAN_LIMIT, Search
from euterpe.model.state import State
from euterpe.model.submitting.submission import KEY_LIMIT, NAME_LIMIT, check_text

QUERY_LIMIT: Final = 2_000
KEYS: Final = "state, type, queue, tag.NAME, error, fingerprint, replayed, created, ended"

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_WORD: Final = re.compile(
    rf'(?P<key>tag\.{_QUOTED}|[^\s":]+):(?P<value>{_QUOTED}\*?|[^\s"]*)|(?P<text>{_QUOTED}|[^\s":]+)', re.DOTALL
)
_PLAIN: Final = re.compile(r'[^\s":\\*]+')


class Word(NamedTuple):
    """A piece of a query and where it begins; the first character is number 1."""

    key: str
    value: str
    at: int
    raw: str

    def wrong(self, why: str) -> InvalidInput:
        return InvalidInput("q", f"{self.raw!r} at character {self.at}: {why}")


def parse_query(text: str, now_us: int) -> Search:
    """The search that a query asks for; InvalidInput names the word that is wrong, and its place."""
    check_text("q", text, QUERY_LIMIT)
    fields: dict[str, object] = {}
    tags: dict[str, str] = {}
    for word in words_of(text):
        name, value = _read(word, now_us)
        if name == "tag":
            if tags.setdefault(_unquoted(word.key.removeprefix("tag.")), str(value)) != value:
                raise word.wrong("this tag was asked for with another value before")
        elif fields.setdefault(name, value) != value:
            raise word.wrong("this was given before with another value; terms are joined by 'and'")
    if fields.keys() >= {"type", "type_prefix"}:
        raise InvalidInput("q", "a type was given twice, once with * and once without")
    return msgspec.convert(fields | {"tags": tuple(tags.items()), "scan_limit": SCAN_LIMIT}, Search)


def joined(query: Search, options: Search) -> Search:
    """A query and options beside it; what both say, they must say alike."""
    changes: dict[str, object] = {}
    for field in ("requester_id", "state", "type", "queue", "tag", "cursor"):
        value, other = getattr(options, field), getattr(query, field)
        if value is not None and other not in (None, value):
            raise InvalidInput(field, f"is {value!r} here, and {other!r} in the query")
        changes[field] = other if value is None else value
    return msgspec.structs.replace(query, **changes, limit=options.limit)


def words_of(text: str) -> list[Word]:
    found, at = [], _after_space(text, 0)
    while at < len(text):
        match = _WORD.match(text, at)
        end = match.end() if match else at
        if match is None or (end < len(text) and not text[end].isspace()):
            raw = text[at:].split(maxsplit=1)[0]
            why = "the quote has no end" if raw.count('"') % 2 else "put text with a colon or a quote into quotes"
            raise Word("", "", at + 1, raw).wrong(why)
        value = match["value"] if match["key"] else match["text"]
        found.append(Word(match["key"] or "", value, at + 1, match[0]))
        at = _after_space(text, end)
    return found


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if value.startswith('"') else value


def _read(word: Word, now_us: int) -> tuple[str, str | int]:
    """The field of a Search, and its value as msgspec takes it."""
    if word.value in ("", '""'):
        raise word.wrong("it says no value" if word.key else "the text is empty")
    if not word.key:
        return "text", _checked(word, KEY_LIMIT)
    if word.key.startswith("tag.") and word.key not in ("tag.", 'tag.""'):
        return "tag", _checked(word, KEY_LIMIT)
    reader = _READERS.get(word.key)
    if reader is None:
        raise word.wrong(f"there is no {word.key!r} to ask for; known are {KEYS}. Text with a colon goes into quotes")
    return reader(word, now_us)


def _state(word: Word, _: int) -> tuple[str, str | int]:
    value = word.value.lower()
    if value not in set(State):
        raise word.wrong(f"the states are {', '.join(State)}")
    return "state", value


def _type(word: Word, _: int) -> tuple[str, str | int]:
    if word.value.endswith("*"):
        beginning = word._replace(value=word.value[:-1])
        if beginning.value in ("", '""') or ("*" in beginning.value and not beginning.value.startswith('"')):
            raise word.wrong("a * stands at the end, after the beginning of a type")
        return "type_prefix", _checked(beginning, NAME_LIMIT)
    if "*" in word.value and not word.value.startswith('"'):
        raise word.wrong("a * stands at the end, after the beginning of a type")
    return "type", _checked(word, NAME_LIMIT)


def _queue(word: Word, _: int) -> tuple[str, str | int]:
    return "queue", _checked(word, NAME_LIMIT)


def _error(word: Word, _: int) -> tuple[str, str | int]:
    return "error", _checked(word, NAME_LIMIT)


def _fingerprint(word: Word, _: int) -> tuple[str, str | int]:
    value = word.value.lower()
    if not FINGERPRINT.fullmatch(value):
        raise word.wrong("a fingerprint has 12 of the characters 0-9 and a-f; `euterpe failures list` shows them")
    return "fingerprint", value


def _replayed(word: Word, _: int) -> tuple[str, str | int]:
    value = word.value.lower()
    if value not in ("yes", "no"):
        raise word.wrong("say replayed:yes or replayed:no")
    return "replayed", value == "yes"


def _moment(word: Word, now_us: int) -> tuple[str, str | int]:
    """When it was created, or ended. An age compares ages, a date dates: `<1h` is less than an hour ago, `>2026-01-31`
    is after that day began."""
    sign, value = word.value[0], word.value[1:]
    if sign not in "<>":
        raise word.wrong(f"say < or > first, as in {word.key}:<1h or {word.key}:>2026-01-31")
    try:
        if re.match(r"\d{4}-", value):
            moment = datetime.fromisoformat(value)
            at = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            after = sign == ">"
            at_us = (at - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
        else:
            after, at_us = sign == "<", now_us - parse_duration_us(value)
    except InvalidDuration as wrong:
        raise word.wrong(f"the age {wrong.reason}") from None
    except ValueError:
        raise word.wrong(
            "write an age such as 1h30m or 7d, or a date such as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None
    return f"{word.key}_{'after' if after else 'before'}", at_us


_MICROSECOND: Final = datetime.resolution
_READERS: Final[dict[str, Callable[[Word, int], tuple[str, str | int]]]] = {
    "state": _state,
    "type": _type,
    "queue": _queue,
    "error": _error,
    "fingerprint": _fingerprint,
    "replayed": _replayed,
    "created": _moment,
    "ended": _moment,
}


def _checked(word: Word, limit: int) -> str:
    value = _unquoted(word.value)
    if word.value.startswith('"') and word.value.endswith("*"):
        raise word.wrong("only a type may be asked for by its beginning")
    if len(value) > limit:
        raise word.wrong(f"{len(value)} characters are more than {limit}")
    return value


def query_text(search: Search) -> str:
    """The query that asks for the same; how a search travels to a control plane, and into the address of a page."""
    parts = [
        ("state", None if search.state is None else str(search.state), False),
        ("type", search.type, True),
        ("type", None if search.type_prefix is None else f"{_shown(search.type_prefix)}*", False),
        ("queue", search.queue, True),
        *((f"tag.{_shown(name)}", value, True) for name, value in search.every_tag),
        ("error", search.error, True),
        ("fingerprint", search.fingerprint, False),
        ("replayed", None if search.replayed is None else "yes" if search.replayed else "no", False),
    ]
    words = [f"{key}:{_shown(value) if text else value}" for key, value, text in parts if value is not None]
    moments = [
        ("created:>", search.created_after),
        ("created:<", search.created_before),
        ("ended:>", search.ended_after),
        ("ended:<", search.ended_before),
    ]
    words += [f"{key}{rfc3339(at_us)}" for key, at_us in moments if at_us is not None]
    if search.text is not None:
        words.append(_quoted(search.text))
    return " ".join(words)


def _shown(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else _quoted(value)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
