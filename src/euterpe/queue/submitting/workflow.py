"""A DAG of jobs: built in memory, stored whole when the block ends, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

import msgspec

from euterpe.model.dependency import Dependency
from euterpe.model.duration import DurationLike
from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.model.submitting.references import ResultSource
from euterpe.queue.definition.job_type import Call, JobType
from euterpe.queue.definition.options import Options, dependency_id
from euterpe.queue.handle import JobHandle
from euterpe.queue.ports import StoresDrafts

R = TypeVar("R")
# ruff: noqa: SLF001  # nodes and included workflows are this room's own


class WorkflowNode(ResultSource, Generic[R]):
    """A job of a workflow. `flow.add` returns it. `type` is the name of its job type. It has an `id` from the start,
    and a `handle` once the workflow is stored. As an argument of another job, it is replaced by its result.

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
        """The id of the job. If an idempotency key found an earlier workflow, it is the id of the earlier job."""
        return self._draft_id if self._handle is None else self._handle.id

    @property
    def handle(self) -> JobHandle[R]:
        """The handle of the stored job. Raises InvalidInput before the workflow is stored."""
        if self._handle is None:
            raise InvalidInput("workflow", "is not stored yet; ask for its jobs after its `async with` block")
        return self._handle

    def __repr__(self) -> str:
        return f"<workflow node {self.type} {self.id}>"

    async def result(self, timeout: DurationLike | None = None) -> R:
        """Wait for the result of the job, as `JobHandle.result` does.

        Example:
            rows = await a.result("1m")
        """
        return await self.handle.result(timeout)


class Workflow:
    """Jobs that depend on each other. `queue.workflow()` creates it. All jobs are stored at the end of the block, or
    none is. `nodes` lists the jobs in the order in which you added them.

    Example:
        async with queue.workflow() as flow:
            a = flow.add(extract, day="mon")
            b = flow.add(load, rows=a)  # waits for a, and gets what it returned
    """

    def __init__(
        self, submitter: StoresDrafts, options: Mapping[str, Any], key: str | None, connection: object = None
    ) -> None:
        self._submitter = submitter
        self._options = options
        self._key = key
        self._connection = connection
        self._drafts: list[Draft] = []
        self._stored = 0
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
        """Add a job. Pass a job type with its arguments, a call made by `with_args` (a type checker then knows the
        arguments), or the name of a job type with its payload.

        If an argument is a node or a handle, or a list of them, the job waits for it and receives its result. `after`:
        jobs that must all complete before this one starts, as nodes, handles or ids, stored earlier or in this
        workflow. `after_any`: jobs of which one must complete. `options`: the options of `queue.submit`. You can also
        add jobs to a stored workflow while it runs, and store them with `await flow.store()`. Raises InvalidInput for
        an argument or option that does not fit.

        Example:
            total = flow.add(summary, parts=[a, b], after=[c], options={"priority": "high"})
        """
        if self._stored and self._key is not None:
            raise InvalidInput("workflow", "is stored under its idempotency key; add to it by a workflow of its own")
        call = self._submitter.call_of(what, args, kwargs)
        merged: dict[str, Any] = {**self._options, **(options or {})}
        self._wait_for(merged, list(after), list(after_any))
        submission = self._submitter.make_submission(*call, **merged)
        (draft_id,) = new_ids(1)
        self._drafts.append(Draft(draft_id, submission))
        node: WorkflowNode[Any] = WorkflowNode(draft_id, submission.type)
        self.nodes.append(node)
        return node

    def include(self, part: Workflow, *, after: Iterable[Any] = ()) -> list[WorkflowNode[Any]]:
        """Add all jobs of another workflow that is not stored yet. `after`: jobs that must all complete before its
        first jobs start. Returns its last nodes: those that no other job of it waits for. You can use them in `after`,
        and as an argument that receives the list of their results. The other workflow is empty afterwards. Raises
        InvalidInput if the other workflow is already stored.

        Example:
            ends = flow.include(make_part(queue.workflow(), day="mon"), after=[a])
            flow.add(summary, parts=ends)
        """
        if part is self or part._stored:
            raise InvalidInput("workflow", "that is included must be another one, and not stored yet")
        own = {draft.id for draft in part._drafts}
        first = tuple(dict.fromkeys(dependency_id(item) for item in after))
        for draft in part._drafts:
            submission = draft.submission
            if first and not own.intersection(submission.depends_on):
                if submission.depends_on and submission.dependency is Dependency.AFTER_ANY:
                    raise InvalidInput("after", f"does not fit {submission.type}, which waits for any of its jobs")
                # Behind its own: references in the payload count from the first one.
                submission = msgspec.structs.replace(
                    submission, depends_on=tuple(dict.fromkeys((*submission.depends_on, *first)))
                )
            self._drafts.append(Draft(draft.id, submission))
        awaited = {job_id for draft in part._drafts for job_id in draft.submission.depends_on}
        ends = [node for node in part.nodes if node.id not in awaited]
        self.nodes += part.nodes
        part._drafts, part.nodes = [], []
        return ends

    def _wait_for(self, merged: dict[str, Any], all_of: list[Any], any_of: list[Any]) -> None:
        if all_of and any_of:
            raise InvalidInput("after_any", "a job waits for all (after) or for any (after_any), not both")
        if all_of or any_of:
            if merged.get("depends_on") is not None:
                raise InvalidInput("depends_on", "is given by after and after_any in a workflow")
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
        """Store all new jobs, or none. The `async with` block does this at its end, unless an exception leaves the
        block.

        Raises DependencyCycle, UnknownDependency or DependencyLimit; then nothing was stored.

        Example:
            await flow.store()
        """
        fresh = self._drafts[self._stored :]
        handles = await self._submitter.store_drafts(fresh, self._key, self._connection)
        nodes = self.nodes[self._stored : self._stored + len(fresh)]
        self._stored += len(fresh)
        for node, handle in zip(nodes, handles, strict=True):
            node._handle = handle
