"""Euterpe: a durable job queue on the database you already run.

The public names, loaded when they are first used: a webhook receiver that imports `euterpe.webhooks`, a lease keeper or
`euterpe --help` do not pay for the worker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers, who cannot follow a lazy name
    from euterpe.model.backoff import Backoff
    from euterpe.model.dependency import Dependency
    from euterpe.model.errors import (
        CommitUnknown,
        DataRejected,
        DependencyCycle,
        DependencyLimit,
        EuterpeError,
        IdempotencyConflict,
        IllegalTransition,
        InvalidInput,
        JobFailed,
        JobNotFound,
        JobPruned,
        PayloadTooLarge,
        PermanentError,
        SchemaMismatch,
        StaleLease,
        StoreUnavailable,
        TemporaryError,
        UnknownDependency,
        Unsupported,
    )
    from euterpe.model.http_error import HTTPError
    from euterpe.model.job import Attempt, Job
    from euterpe.model.priority import Priority
    from euterpe.model.state import State
    from euterpe.queue.handle import JobHandle
    from euterpe.queue.job_type import Call, JobType
    from euterpe.queue.queue import Queue
    from euterpe.queue.workflow import Workflow
    from euterpe.worker.context import Context

__version__ = "0.1.0"

_HOMES = {
    "euterpe.model.backoff": "Backoff",
    "euterpe.model.dependency": "Dependency",
    "euterpe.model.errors": (
        "CommitUnknown "
        "DataRejected "
        "DependencyCycle "
        "DependencyLimit "
        "EuterpeError "
        "IdempotencyConflict "
        "IllegalTransition "
        "InvalidInput "
        "JobFailed "
        "JobNotFound "
        "JobPruned "
        "PayloadTooLarge "
        "PermanentError "
        "SchemaMismatch "
        "StaleLease "
        "StoreUnavailable "
        "TemporaryError "
        "UnknownDependency "
        "Unsupported "
    ),
    "euterpe.model.http_error": "HTTPError",
    "euterpe.model.job": "Attempt Job",
    "euterpe.model.priority": "Priority",
    "euterpe.model.state": "State",
    "euterpe.queue.handle": "JobHandle",
    "euterpe.queue.job_type": "Call JobType",
    "euterpe.queue.queue": "Queue",
    "euterpe.queue.workflow": "Workflow",
    "euterpe.worker.context": "Context",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'euterpe' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])


__all__ = [
    "Attempt",
    "Backoff",
    "Call",
    "CommitUnknown",
    "Context",
    "DataRejected",
    "Dependency",
    "DependencyCycle",
    "DependencyLimit",
    "EuterpeError",
    "HTTPError",
    "IdempotencyConflict",
    "IllegalTransition",
    "InvalidInput",
    "Job",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobPruned",
    "JobType",
    "PayloadTooLarge",
    "PermanentError",
    "Priority",
    "Queue",
    "SchemaMismatch",
    "StaleLease",
    "State",
    "StoreUnavailable",
    "TemporaryError",
    "UnknownDependency",
    "Unsupported",
    "Workflow",
]
