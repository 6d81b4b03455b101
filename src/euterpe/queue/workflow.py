"""A DAG of jobs: built in memory, stored whole when the block ends, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from euterpe.model.dependency import Dependency, parse_dependency
from euterpe.model.errors import InvalidInput
from euterpe.queue.handle import JobHandle
from euterpe.queue.home import Home
from euterpe.queue.options import Options
from euterpe.store.units import Draft, new_ids


class Node:
    """A job of a workflow. It has its id from the start; `handle` is there once the workflow is stored."""

    __slots__ = ("handle", "id", "name")

    def __init__(self, job_id: str, name: str) -> None:
        self.id = job_id
        self.name = name
        self.handle: JobHandle[Any] | None = None

    def __repr__(self) -> str:
        return f"<node {self.name} {self.id}>"

    async def result(self, timeout: Any = None) -> Any:  # the promised name
        if self.handle is None:
            raise InvalidInput("workflow", "is not stored yet; ask for results after its `async with` block")
        return await self.handle.result(timeout)


class Workflow:
    """`async with queue.workflow() as flow: a = flow.add(extract, day="mon"); b = flow.add(load, after=[a])`."""

    def __init__(self, queue: Home, options: Mapping[str, Any], key: str | None) -> None:
        self._queue = queue
        self._options = options
        self._key = key
        self._drafts: list[Draft] = []
        self.nodes: list[Node] = []

    def add(
        self,
        what: Any,
        /,
        *args: Any,
        after: Iterable[Any] = (),
        after_any: Iterable[Any] = (),
        options: Options | None = None,
        **kwargs: Any,
    ) -> Node:
        """Add a job type with its arguments, or a call made by `with_args`; `after` names what it waits for."""
        call = self._queue.call_of(what, args, kwargs)
        (job_id,) = new_ids(1)
        waits_for, kind = list(after), Dependency.AFTER
        if others := list(after_any):
            if waits_for:
                raise InvalidInput("after_any", "a job waits for all (after) or for any (after_any), not both")
            waits_for, kind = others, Dependency.AFTER_ANY
        merged: dict[str, Any] = {**self._options, **(options or {})}
        if waits_for:
            merged["depends_on"] = waits_for
            merged["dependency"] = parse_dependency(merged.get("dependency", kind))
        submission = self._queue.submission_of_call(call, merged)
        self._drafts.append(Draft(job_id, submission))
        node = Node(job_id, submission.type)
        self.nodes.append(node)
        return node

    async def __aenter__(self) -> Workflow:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            handles = await self._queue.store_drafts(self._drafts, self._key)
            for node, handle in zip(self.nodes, handles, strict=True):
                node.handle = handle
