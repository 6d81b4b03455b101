"""A DAG of jobs: built in memory, stored whole when the block ends, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from euterpe.model.batch import Draft, new_ids
from euterpe.model.dependency import Dependency
from euterpe.model.duration import DurationLike
from euterpe.model.errors import InvalidInput
from euterpe.queue.definition.job_type import Call, JobType
from euterpe.queue.definition.options import Options
from euterpe.queue.handle import JobHandle
from euterpe.queue.ports import StoresDrafts

R = TypeVar("R")


class WorkflowNode(Generic[R]):
    """A job of a workflow, as `flow.add` returns it. `type` is its job type's name; the `id` is there from the start,
    the `handle` once the workflow is stored.

    Example:
        async with queue.workflow() as flow:
            a = flow.add(extract, day="mon")
        print(a.id, await a.result("1m"))
    """

    __slots__ = ("_draft_id", "_handle", "type")

    def __init__(self, draft_id: str, job_type: str) -> None:
        self._draft_id = draft_id
        self.type = job_type
        self._handle: JobHandle[R] | None = None

    @property
    def id(self) -> str:
        """Of the stored job. A workflow that an idempotency key found again has the ids of the first time."""
        return self._draft_id if self._handle is None else self._handle.id

    @property
    def handle(self) -> JobHandle[R]:
        """The stored job's handle. Raises InvalidInput before the workflow is stored."""
        if self._handle is None:
            raise InvalidInput("workflow", "is not stored yet; ask for its jobs after its `async with` block")
        return self._handle

    def __repr__(self) -> str:
        return f"<workflow node {self.type} {self.id}>"

    async def result(self, timeout: DurationLike | None = None) -> R:
        """What its handler returned; like `JobHandle.result`.

        Example:
            rows = await a.result("1m")
        """
        return await self.handle.result(timeout)


class Workflow:
    """Jobs that wait for each other, made by `queue.workflow()` and stored whole at the end of the block, or not at
    all. `nodes` are its jobs in the order in which they were added.

    Example:
        async with queue.workflow() as flow:
            a = flow.add(extract, day="mon")
            b = flow.add(load, after=[a])
    """

    def __init__(
        self, submitter: StoresDrafts, options: Mapping[str, Any], key: str | None, connection: Any = None
    ) -> None:
        self._submitter = submitter
        self._options = options
        self._key = key
        self._connection = connection
        self._drafts: list[Draft] = []
        self._stored = False
        self.nodes: list[WorkflowNode[Any]] = []

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
    ) -> WorkflowNode[R]: ...

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
    ) -> WorkflowNode[Any]: ...

    def add(
        self,
        what: Any,
        /,
        *args: Any,
        after: Iterable[Any] = (),
        after_any: Iterable[Any] = (),
        options: Options | None = None,
        **kwargs: Any,
    ) -> WorkflowNode[Any]:
        """Add a job: a job type with its arguments, a call made by `with_args` (whose arguments a type checker knows),
        or a type's name with its payload.

        `after`: jobs that must all have completed before it starts; nodes, handles or ids, stored earlier or in this
        workflow. `after_any`: likewise, but one of them is enough. `options`: as for `queue.submit`.
        Raises InvalidInput for an argument or option that does not fit.

        Example:
            load_job = flow.add(load, after=[a, b], options={"priority": "high"})
        """
        if self._stored:
            raise InvalidInput("workflow", "is stored already; start another one")
        call = self._submitter.call_of(what, args, kwargs)
        merged: dict[str, Any] = {**self._options, **(options or {})}
        self._wait_for(merged, list(after), list(after_any))
        submission = self._submitter.make_submission(*call, **merged)
        (draft_id,) = new_ids(1)
        self._drafts.append(Draft(draft_id, submission))
        node: WorkflowNode[Any] = WorkflowNode(draft_id, submission.type)
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
        """Store it whole. The `async with` block does this at its end, unless an exception leaves it.

        Raises DependencyCycle, UnknownDependency or DependencyLimit; then nothing was stored.

        Example:
            await flow.store()
        """
        if self._stored:
            return
        handles = await self._submitter.store_drafts(self._drafts, self._key, self._connection)
        self._stored = True
        for node, handle in zip(self.nodes, handles, strict=True):
            node._handle = handle  # noqa: SLF001  # the node is this workflow's own
