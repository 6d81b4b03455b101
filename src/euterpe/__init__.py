"""Euterpe: a durable job queue on the database you already run.

Each public name is loaded when it is first used. So a webhook receiver that imports `euterpe.webhooks` does not load
the worker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers, who cannot follow a lazy name
    from euterpe.model.dependency import Dependency
    from euterpe.model.duration import DurationLike
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
        MissingExtra,
        OpenedBeforeFork,
        PayloadTooLarge,
        PermanentError,
        SchemaMismatch,
        ServerNotReady,
        StaleLease,
        StoreUnavailable,
        TemporaryError,
        UnknownDependency,
        UnprocessableRow,
        Unsupported,
    )
    from euterpe.model.failures.backoff import Backoff, Strategy
    from euterpe.model.failures.failure import Category
    from euterpe.model.failures.http_error import HTTPError
    from euterpe.model.failures.job_error import JobError
    from euterpe.model.priority import Priority
    from euterpe.model.state import State
    from euterpe.model.submitting.unique import Unique
    from euterpe.ports import Telemetry
    from euterpe.queue.definition.job_type import Call, CronDecorator, JobDecorator, JobType, PreparedJob
    from euterpe.queue.definition.options import Options, Updates
    from euterpe.queue.handle import JobHandle
    from euterpe.queue.job import Attempt, Job, Page, Progress, Stats
    from euterpe.queue.queue import Queue
    from euterpe.queue.steering.circuit_breaker import CircuitBreakerOptions
    from euterpe.queue.steering.crons import CronJob, Crons
    from euterpe.queue.steering.rates import Rates, StartRate
    from euterpe.queue.submitting.references import PREVIOUS, result_of
    from euterpe.queue.submitting.submit_middleware import NewJob
    from euterpe.queue.submitting.workflow import Workflow, WorkflowNode
    from euterpe.queue.sync import SyncQueue
    from euterpe.queue.worker import RunningAttempt, Worker, WorkerOptions
    from euterpe.worker.context import Context, Sent
    from euterpe.worker.handling.signature import injected

__version__ = "0.1.0"

_HOMES = {
    "euterpe.model.submitting.unique": "Unique",
    "euterpe.model.failures.backoff": "Backoff Strategy",
    "euterpe.model.dependency": "Dependency",
    "euterpe.model.duration": "DurationLike",
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
        "MissingExtra "
        "OpenedBeforeFork "
        "PayloadTooLarge "
        "PermanentError "
        "SchemaMismatch "
        "ServerNotReady "
        "StaleLease "
        "StoreUnavailable "
        "TemporaryError "
        "UnknownDependency "
        "UnprocessableRow "
        "Unsupported "
    ),
    "euterpe.model.failures.failure": "Category",
    "euterpe.model.failures.http_error": "HTTPError",
    "euterpe.model.failures.job_error": "JobError",
    "euterpe.model.priority": "Priority",
    "euterpe.model.state": "State",
    "euterpe.ports": "Telemetry",
    "euterpe.queue.steering.circuit_breaker": "CircuitBreakerOptions",
    "euterpe.queue.handle": "JobHandle",
    "euterpe.queue.job": "Attempt Job Page Progress Stats",
    "euterpe.queue.definition.job_type": "Call CronDecorator JobDecorator JobType PreparedJob",
    "euterpe.queue.definition.options": "Options Updates",
    "euterpe.queue.steering.crons": "CronJob Crons",
    "euterpe.queue.queue": "Queue",
    "euterpe.queue.submitting.references": "PREVIOUS result_of",
    "euterpe.queue.submitting.submit_middleware": "NewJob",
    "euterpe.queue.sync": "SyncQueue",
    "euterpe.queue.steering.rates": "Rates StartRate",
    "euterpe.queue.worker": "RunningAttempt Worker WorkerOptions",
    "euterpe.queue.submitting.workflow": "Workflow WorkflowNode",
    "euterpe.worker.context": "Context Sent",
    "euterpe.worker.handling.signature": "injected",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:  # a type checker reads the imports above
    if name not in _HOME_OF:
        raise AttributeError(f"module 'euterpe' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])


__all__ = [
    "PREVIOUS",
    "Attempt",
    "Backoff",
    "Call",
    "Category",
    "CircuitBreakerOptions",
    "CommitUnknown",
    "Context",
    "CronDecorator",
    "CronJob",
    "Crons",
    "DataRejected",
    "Dependency",
    "DependencyCycle",
    "DependencyLimit",
    "DurationLike",
    "EuterpeError",
    "HTTPError",
    "IdempotencyConflict",
    "IllegalTransition",
    "InvalidInput",
    "Job",
    "JobDecorator",
    "JobError",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobPruned",
    "JobType",
    "MissingExtra",
    "NewJob",
    "OpenedBeforeFork",
    "Options",
    "Page",
    "PayloadTooLarge",
    "PermanentError",
    "PreparedJob",
    "Priority",
    "Progress",
    "Queue",
    "Rates",
    "RunningAttempt",
    "SchemaMismatch",
    "Sent",
    "ServerNotReady",
    "StaleLease",
    "StartRate",
    "State",
    "Stats",
    "StoreUnavailable",
    "Strategy",
    "SyncQueue",
    "Telemetry",
    "TemporaryError",
    "Unique",
    "UnknownDependency",
    "UnprocessableRow",
    "Unsupported",
    "Updates",
    "Worker",
    "WorkerOptions",
    "Workflow",
    "WorkflowNode",
    "injected",
    "result_of",
]
