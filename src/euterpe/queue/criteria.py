"""What to look for and what to pause, in a user's words; InvalidInput names the word that is wrong."""

from __future__ import annotations

from typing import Any

from euterpe.model.errors import InvalidInput
from euterpe.model.state import State
from euterpe.model.views import Search


def search_of(criteria: dict[str, Any]) -> Search:
    known = ("state", "type", "queue", "tag", "cursor", "limit")
    if unknown := sorted(set(criteria) - set(known)):
        raise InvalidInput(unknown[0], f"is nothing to search by; use {', '.join(known)}")
    said = {name: value for name, value in criteria.items() if value is not None}
    if "state" in said:
        said["state"] = _state(said["state"])
    if "tag" in said:
        said["tag"] = _tag(said["tag"])
    limit = said.get("limit", 1)
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidInput("limit", f"{limit!r} is not a whole number")
    for name in ("type", "queue", "cursor"):
        if not isinstance(said.get(name, ""), str):
            raise InvalidInput(name, f"must be text, not {type(said[name]).__name__}")
    return Search(**said)


def _state(value: Any) -> State:
    try:
        return State(str(value).lower())
    except ValueError:
        raise InvalidInput("state", f"{value!r} is not one of {', '.join(State)}") from None


def _tag(value: Any) -> tuple[str, str]:
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return value[0], value[1]
    raise InvalidInput("tag", f'{value!r} is not a pair such as ("team", "a")')


def pause_target(queue: str | None, job_type: str | None) -> tuple[str, str]:
    if queue is not None and job_type is None:
        return "queue", queue
    if job_type is not None and queue is None:
        return "type", job_type
    raise InvalidInput("queue", "name a queue or a type, one of them")
