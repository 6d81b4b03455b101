"""A DAG of jobs: built in memory, stored whole when the block ends, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from euterpe.model.batch import Draft, new_ids
from euterpe.model.dependency import Dependency
from euterpe.model.duration import DurationLike
from euterpe.model.errors import InvalidInput
from euterpe.queue.handle import JobHandle
from euterpe.queue.job_type import Call, JobType
from euterpe.queue.options import Options
from euterpe.queue.ports import Home

R = TypeVar("R")


class Node(Generic[R]):
    """A job of a workflow. It has its id from the start; `handle` is there once the workflow is stored."""

    __slots__ = ("_handle", "draft_id", "name")

    def __init__(self, draft_id: str, name: str) -> None:
        self.draft_id = draft_id
        self.name = name
        self._handle: JobHandle[R] | None = None

    @property
    def id(self) -> str:
        """Of the stored job. A workflow that an idempotency key found again has the ids of the first time."""
        return self.draft_id if self._handle is None else self._handle.id

    @property
    def handle(self) -> JobHandle[R]:
        if self._handle is None:
            raise InvalidInput("workflow", "is not stored yet; ask for its jobs after its `async with` block")
        return self._handle

    def stored_as(self, handle: JobHandle[R]) -> None:
        self._handle = handle

    def __repr__(self) -> str:
        return f"<node {self.name} {self.id}>"

    async def result(self, timeout: DurationLike | None = None) -> R:
        return await self.handle.result(timeout)


class Workflow:
    """`async with queue.workflow() as flow: a = flow.add(extract, day="mon"); b = flow.add(load, after=[a])`."""

    def __init__(self, queue: Home, options: Mapping[str, Any], key: str | None, connection: Any = None) -> None:
        self._queue = queue
        self._options = options
        self._key = key
        self._connection = connection
        self._drafts: list[Draft] = []
        self._stored = False
        self.nodes: list[Node[Any]] = []

    @overload
    def add(
        self,
        what: JobType[..., R] | Call[R],
        /,
        *args: Any,
        after: Iterable[Any] = (),
        after_any: Iterable[Any] = (),
        options: Options | None = None,
        **kwargs: Any,
    ) -> Node[R]: ...

    @overload
    def add(
        self,
        what: str,
        /,
        *args: Any,
        after: Iterable[Any] = (),
        after_any: Iterable[Any] = (),
        options: Options | None = None,
        **kwargs: Any,
    ) -> Node[Any]: ...

    def add(
        self,
        what: Any,
        /,
        *args: Any,
        after: Iterable[Any] = (),
        after_any: Iterable[Any] = (),
        options: Options | None = None,
        **kwargs: Any,
    ) -> Node[Any]:
        """Add a job type with its arguments, or a call made by `with_args` (whose arguments a type checker knows);
        `after` names what it waits for. Jobs stored earlier may be waited for too."""
        if self._stored:
            raise InvalidInput("workflow", "is stored already; start another one")
        call = self._queue.call_of(what, args, kwargs)
        merged: dict[str, Any] = {**self._options, **(options or {})}
        self._wait_for(merged, list(after), list(after_any))
        submission = self._queue.make_submission(*call, **merged)
        (draft_id,) = new_ids(1)
        self._drafts.append(Draft(draft_id, submission))
        node: Node[Any] = Node(draft_id, submission.type)
        self.nodes.append(node)
        return node

    def _wait_for(self, merged: dict[str, Any], all_of: list[Any], any_of: list[Any]) -> None:
        if all_of and any_of:
            raise InvalidInput("after_any", "a job waits for all (after) or for any (after_any), not both")
        if all_of or any_of:
            if merged.get("depends_on") is not None:
                raise InvalidInput("depends_on", "is said by after and after_any in a workflow")
            merged["depends_on"] = all_of or any_of
            merged.setdefault("dependency", Dependency.AFTER if all_of else Dependency.AFTER_ANY)

    async def __aenter__(self) -> Workflow:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.store()

    async def store(self) -> None:
        """Store it whole. The `async with` block does this at its end, unless an exception leaves it."""
        if self._stored:
            return
        handles = await self._queue.store_drafts(self._drafts, self._key, self._connection)
        self._stored = True
        for node, handle in zip(self.nodes, handles, strict=True):
            node.stored_as(handle)
