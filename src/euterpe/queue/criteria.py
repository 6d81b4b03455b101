"""What to look for and what to pause, in a user's words; InvalidInput names the word that is wrong."""

from __future__ import annotations

from types import NoneType
from typing import Any

from euterpe.model.errors import InvalidInput
from euterpe.model.reading.views import Search
from euterpe.model.state import State


def search_of(
    state: State | str | None,
    job_type: str | None,
    queue: str | None,
    tag: tuple[str, str] | None,
    cursor: str | None,
    limit: int,
) -> Search:
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidInput("limit", f"{limit!r} is not a whole number")
    for name, value in (("type", job_type), ("queue", queue), ("cursor", cursor)):
        if not isinstance(value, (str, NoneType)):
            raise InvalidInput(name, f"must be text, not {type(value).__name__}")
    return Search(
        state=None if state is None else _state(state),
        type=job_type,
        queue=queue,
        tag=None if tag is None else _tag(tag),
        cursor=cursor,
        limit=limit,
    )


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
