"""JSON as a tree that folds. Numbers stay as they were written, however long; names of secrets hide their values."""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import shown_url
from euterpe.dashboard.parts.html import Html
from euterpe.model.secret_names import is_secret

SHOWN_BYTES: Final = 100_000
"""A larger document is shown by its beginning, as text."""
SHOWN_MEMBERS: Final = 200
DEEPEST: Final = 40
OPEN_LEVELS: Final = 2
LONGEST_TEXT: Final = 2_000
HIDDEN: Final = "hidden: its name says that it is a secret"


class Number(str):
    """A number in its own digits: a browser, or a float, would round 2**60."""

    __slots__ = ()


Json: TypeAlias = "dict[str, Json] | list[Json] | str | bool | None"
"""As `read` decodes it: a number is a `Number`, which is a str."""


def read(stored: bytes) -> Json:
    """ValueError for what is no JSON."""
    value: Json = json.loads(stored, parse_int=Number, parse_float=Number, parse_constant=Number)
    return value


def json_tree(stored: bytes | None, nothing: str) -> Html:
    """A stored value; `nothing` is said where there is none."""
    if stored is None:
        return h.p(nothing, class_="empty")
    if len(stored) > SHOWN_BYTES:
        # The beginning of a document cannot be searched for names of secrets, so none of it is shown.
        return h.p(f"{len(stored):,} bytes are too many for a page; the API tells all of it.", class_="empty")
    try:
        value = read(stored)
    except (ValueError, RecursionError):
        return h.p(f"{len(stored):,} bytes that cannot be read as JSON.", class_="empty")
    return h.div(_node(value, 0), class_="tree")


def has_secrets(value: Json) -> bool:
    if isinstance(value, dict):
        return any(is_secret(name) or has_secrets(member) for name, member in value.items())
    return isinstance(value, list) and any(has_secrets(member) for member in value)


def _node(value: Json, level: int) -> Html:
    if isinstance(value, dict):
        members = [_member(name, member) for name, member in value.items()]
        return _branch(members, "{", "}", "member", level)
    if isinstance(value, list):
        return _branch([(str(i), member, False) for i, member in enumerate(value)], "[", "]", "item", level)
    return _leaf(value)


def _member(name: str, member: Json) -> tuple[str, Json, bool]:
    """(name, what is shown, whether that is not the value)."""
    if is_secret(name):
        return name, HIDDEN, True
    return name, shown_url(member) if name == "callback_url" and isinstance(member, str) else member, False


def _branch(members: list[tuple[str, Json, bool]], opening: str, closing: str, noun: str, level: int) -> Html:
    if not members:
        return h.span(opening + closing, class_="t-empty")
    if level >= DEEPEST:
        return h.span("nested too deeply to be shown", class_="t-empty")
    rows = [
        h.li(
            h.span(name, class_="t-name"),
            ": ",
            h.span(member, class_="t-hidden") if secret else _node(member, level + 1),
        )
        for name, member, secret in members[:SHOWN_MEMBERS]
    ]
    if len(members) > SHOWN_MEMBERS:
        rows.append(h.li(f"and {len(members) - SHOWN_MEMBERS:,} more", class_="t-empty"))
    count = f"{len(members)} {noun}" + ("" if len(members) == 1 else "s")
    told = h.summary(opening, h.small(count), closing)
    return h.details(told, h.ul(rows), open_=level < OPEN_LEVELS and len(members) <= SHOWN_MEMBERS)


def _leaf(value: Json) -> Html:
    if isinstance(value, Number):
        return h.span(str(value), class_="t-number")
    if isinstance(value, str):
        text = value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + "…"
        return h.span(json.dumps(text, ensure_ascii=False), class_="t-text")
    return h.span(json.dumps(value), class_="t-word")
