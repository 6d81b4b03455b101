"""Results that flow: an argument that stands for what another job returned.

A payload never changes. A reference in it is the object `{"$euterpe.result": 2}`: the result of the third job that this
one depends on. Whoever claims the job gets the result in its place. The name is reserved: a payload that has it and
is no reference is refused at submit, so that nobody makes one by accident.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat
from operator import contains
from typing import Any, Final

from euterpe.model.dependency import Dependency
from euterpe.model.errors import InvalidInput

NAME: Final = "$euterpe.result"
PREVIOUS_WORD: Final = "previous"
_KEY: Final = f'"{NAME}"'.encode()
# Inside a JSON string every quote is escaped, so neither of these can be a part of one.
_REFERENCE: Final = re.compile(rb'\{\s*"\$euterpe\.result"\s*:\s*(0|[1-9][0-9]{0,3})\s*\}')
_PREVIOUS: Final = f'{{"{NAME}":"{PREVIOUS_WORD}"}}'.encode()


class ResultSource:
    """What can stand in an argument for a job's result: a handle, or a node of a workflow."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The id of the job."""
        raise NotImplementedError


class Previous(ResultSource):
    """Stands for the result of the step before, in a chain or behind a fan-out."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "euterpe.PREVIOUS"


class ReferenceCollector:
    """The jobs whose results one payload refers to, each once, in order of appearance."""

    __slots__ = ("ids",)

    def __init__(self) -> None:
        self.ids: list[str] = []

    def written(self, source: ResultSource) -> dict[str, Any]:
        """What stands in the payload for this job's result."""
        if isinstance(source, Previous):
            return {NAME: PREVIOUS_WORD}
        job_id = source.id.lower()
        if job_id not in self.ids:
            self.ids.append(job_id)
        return {NAME: self.ids.index(job_id)}


def has_references(payload: bytes) -> bool:
    return _KEY in payload


def has_any_references(payloads: Sequence[bytes]) -> bool:
    """Of one of them; without a line of Python for each."""
    return any(map(contains, payloads, repeat(_KEY)))


def check_references(payload: bytes, depends_on: Sequence[str], kind: Dependency) -> None:
    """InvalidInput for a payload that has the reserved name, but refers to nothing that the job waits for."""
    if _PREVIOUS in payload:
        raise InvalidInput(
            "payload", "euterpe.PREVIOUS stands in a chain, or in `then` of a fan_out, behind a first step"
        )
    places = [int(found) for found in _REFERENCE.findall(payload)]
    if len(places) != payload.count(_KEY):
        raise InvalidInput(
            "payload", f'{NAME} is a reserved name; a reference is {{"{NAME}": 0}} and nothing beside it'
        )
    if places and max(places) >= len(depends_on):
        raise InvalidInput(
            "payload", f"refers to the result of dependency {max(places)}; depends_on names {len(depends_on)} jobs"
        )
    if len(set(depends_on)) < len(depends_on):
        raise InvalidInput("depends_on", "names a job twice, while the payload refers to results by their place in it")
    if kind is Dependency.AFTER_ANY:
        raise InvalidInput("dependency", "after_any does not wait for every result that the payload refers to")


def put_previous(
    payload: bytes, ids: Sequence[str], previous: Sequence[str], *, as_list: bool
) -> tuple[bytes, list[str]]:
    """(payload, ids) with the jobs before it in place of PREVIOUS; unchanged where it is not asked for."""
    if _PREVIOUS not in payload:
        return payload, list(ids)
    all_ids = list(dict.fromkeys([*ids, *previous]))
    markers = [f'{{"{NAME}":{all_ids.index(job_id)}}}' for job_id in previous]
    value = f"[{','.join(markers)}]" if as_list else markers[0]
    return payload.replace(_PREVIOUS, value.encode()), all_ids


def resolved(payload: bytes, results: Sequence[bytes | None]) -> bytes:
    """The payload with results in place of its references. LookupError: one of them is gone."""

    def result_at(found: re.Match[bytes]) -> bytes:
        place = int(found.group(1))
        result = results[place] if place < len(results) else None
        if result is None:
            raise LookupError(place)
        return result

    return _REFERENCE.sub(result_at, payload)
