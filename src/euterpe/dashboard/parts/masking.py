"""A payload that can be edited without being told its secrets: they are marked, and come back where they were."""

from __future__ import annotations

import json
from typing import Final

from euterpe.dashboard.parts.tree import SHOWN_BYTES, Json, Number, read
from euterpe.model.errors import InvalidInput
from euterpe.model.secret_names import is_secret

MARK: Final = "••• hidden •••"


def masked_text(stored: bytes) -> str | None:
    """The payload for a person to edit; None when it is too large or no JSON."""
    if len(stored) > SHOWN_BYTES:
        return None
    try:
        return written(_masked(read(stored)), "")
    except (ValueError, RecursionError):
        return None


def edited_payload(text: str, stored: bytes) -> bytes:
    """What was edited, with the hidden values as they are stored; InvalidInput says what is wrong with it."""
    try:
        value = read(text.encode())
    except (ValueError, RecursionError) as error:
        raise InvalidInput("payload", f"is no JSON: {error}") from None
    if MARK not in text:
        return text.strip().encode()
    try:
        return written(_restored(value, read(stored)), "").encode()
    except RecursionError:
        raise InvalidInput("payload", "is nested too deeply to be edited here; replay it over the API") from None


def _masked(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: MARK if is_secret(name) else _masked(member) for name, member in value.items()}
    return [_masked(member) for member in value] if isinstance(value, list) else value


def _restored(value: Json, stored: Json, secret: bool = False) -> Json:
    if value == MARK:
        if not secret:
            raise InvalidInput("payload", f"has {MARK!r} at a place where nothing is hidden")
        return stored
    if isinstance(value, dict):
        before = stored if isinstance(stored, dict) else {}
        return {
            name: _restored(member, before.get(name), name in before and is_secret(name))
            for name, member in value.items()
        }
    if isinstance(value, list):
        before_items = stored if isinstance(stored, list) and len(stored) == len(value) else [None] * len(value)
        return [_restored(member, was) for member, was in zip(value, before_items, strict=True)]
    return value


def written(value: Json, indent: str) -> str:
    """JSON with numbers in their own digits."""
    deeper = indent + "  "
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict) and value:
        members = (f"{deeper}{json.dumps(name, ensure_ascii=False)}: {written(v, deeper)}" for name, v in value.items())
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(deeper + written(member, deeper) for member in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
