"""Euterpe: a durable job queue on the database you already run."""

from __future__ import annotations

from euterpe.model.backoff import Backoff
from euterpe.model.dependency import Dependency
from euterpe.model.errors import (
    CommitUnknown,
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
from euterpe.model.job import Attempt, Job
from euterpe.model.priority import Priority
from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.jobtype import Call, JobType
from euterpe.queue.queue import Queue
from euterpe.queue.workflow import Workflow
from euterpe.worker.context import Context

__version__ = "0.1.0"

__all__ = [
    "Attempt",
    "Backoff",
    "Call",
    "CommitUnknown",
    "Context",
    "Dependency",
    "DependencyCycle",
    "DependencyLimit",
    "EuterpeError",
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
