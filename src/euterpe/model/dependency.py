"""What jobs wait for: five kinds, how an ended dependency reaches its dependents, and the shape of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from euterpe.model.errors import DependencyCycle, DependencyLimit, InvalidInput
from euterpe.model.state import State

MAX_DEPTH: Final = 100
MAX_BREADTH: Final = 1000
MAX_EDGES: Final = 20_000
"""In one submission: SQLite's only writer stores about a hundred thousand a second, and meanwhile nobody else's."""


class Dependency(StrEnum):
    """How a job waits for others, and what happens to it when they end. See `docs/dependencies.md`."""

    AFTER = "after"
    AFTER_ANY = "after_any"
    CHAIN = "chain"
    FAN_OUT = "fan_out"
    """A child that a running job spawned: it waits for nothing, but fan-ins on the parent wait for it."""
    FAN_IN = "fan_in"


WAITS: Final = frozenset({Dependency.AFTER, Dependency.AFTER_ANY, Dependency.CHAIN, Dependency.FAN_IN})

_SEVERITY: Final = {State.CANCELLED: 1, State.FAILED: 2, State.DEAD_LETTER: 3}


def parse_dependency(value: Dependency | str) -> Dependency:
    kinds = {str(kind): kind for kind in Dependency if kind in WAITS}
    kind = kinds.get(str(value).lower())
    if kind is None:
        raise InvalidInput("dependency", f"{value!r} is not one of {', '.join(kinds)}")
    return kind


def waits_for(kind: Dependency, unfinished: int, finished: int) -> int:
    """How many more dependencies must end before the job may go."""
    if kind is Dependency.AFTER_ANY:
        return 0 if finished or not unfinished else 1
    return unfinished


def end_of_dependent(kind: Dependency, ends: Iterable[State]) -> State | None:
    """The state a dependent must end in because of how its dependencies ended; None when it may live on.

    AFTER and FAN_IN end likewise (the gravest wins when mixed); CHAIN is cancelled; AFTER_ANY never minds.
    """
    bad = [end for end in ends if end is not State.COMPLETED]
    if not bad or kind is Dependency.AFTER_ANY:
        return None
    if kind is Dependency.CHAIN:
        return State.CANCELLED
    return max(bad, key=_SEVERITY.__getitem__)


def gravest(ends: Mapping[str, State]) -> str:
    """The id of the dependency to name as the reason: of the gravest end, and of several such always the same one."""
    bad = sorted(job_id for job_id, end in ends.items() if end is not State.COMPLETED)
    return max(bad, key=lambda job_id: _SEVERITY[ends[job_id]])


def check_breadth(dependencies: Sequence[str]) -> None:
    if len(dependencies) > MAX_BREADTH:
        raise DependencyLimit("depends_on", f"{len(dependencies)} dependencies; a job may have {MAX_BREADTH}")


def check_edges(count: int) -> None:
    if count > MAX_EDGES:
        raise DependencyLimit(
            "depends_on", f"{count} dependencies in one submission; {MAX_EDGES} are allowed: submit it in parts"
        )


def depth_above(depths: Iterable[int]) -> int:
    """The level of a job over dependencies at these levels; a job without any is at level 1."""
    depth = max(depths, default=0) + 1
    if depth > MAX_DEPTH:
        raise DependencyLimit("depends_on", f"the chain is {depth} levels deep; {MAX_DEPTH} are allowed")
    return depth


def in_order(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes of a graph, every one after what it depends on (edges to outside nodes are ignored)."""
    missing = {node: sum(1 for d in needs if d in edges) for node, needs in edges.items()}
    dependents: dict[str, list[str]] = {node: [] for node in edges}
    for node, needs in edges.items():
        for dependency in needs:
            if dependency in edges:
                dependents[dependency].append(node)
    ready = [node for node, count in missing.items() if count == 0]
    for node in ready:
        for dependent in dependents[node]:
            missing[dependent] -= 1
            if missing[dependent] == 0:
                ready.append(dependent)
    if len(ready) < len(edges):
        stuck = sorted(set(edges) - set(ready))
        raise DependencyCycle("depends_on", f"the graph has a cycle through {', '.join(stuck[:5])}")
    return ready
