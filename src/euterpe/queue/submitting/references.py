"""Words for the results of other jobs, where a type checker looks at the arguments."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from euterpe.model.submitting.references import Previous
from euterpe.queue.handle import JobHandle
from euterpe.queue.submitting.workflow import WorkflowNode

R = TypeVar("R")

PREVIOUS: Final[Any] = Previous()
"""In an argument of a chain's step: what the step before returned. In `then` of a fan-out: a list of what all of them
returned, in order."""


def result_of(job: JobHandle[R] | WorkflowNode[R]) -> R:
    """Return the job with the type of its result, so that a type checker accepts it as an argument of another job.

    Example:
        rows = await extract.submit(day="mon")
        await load.submit(rows=euterpe.result_of(rows))
    """
    stands_for: Any = job
    typed: R = stands_for
    return typed
