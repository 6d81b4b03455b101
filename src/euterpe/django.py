"""A backend for Django's tasks: `@task` functions become jobs of a queue.

    TASKS = {
        "default": {
            "BACKEND": "euterpe.django.EuterpeBackend",
            "OPTIONS": {"queue": "shop.jobs.queue", "database": "default"},
        }
    }

`queue` is the dotted path of a `euterpe.Queue` on which `run_tasks` was called. With `database`, a task that is
enqueued inside `transaction.atomic()` on that database is part of the transaction; the queue has to live there too.
Django 6 has tasks of its own; for Django 5 there is the package django-tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol, Unpack

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections
from django.utils.module_loading import import_string

from euterpe.model.errors import InvalidInput, JobNotFound
from euterpe.model.failures.job_error import JobError
from euterpe.model.priority import Priority
from euterpe.model.state import State
from euterpe.queue.definition.options import Options
from euterpe.queue.job import Attempt, Job
from euterpe.queue.queue import Queue
from euterpe.worker.context import Context

try:
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
except ImportError:  # Django 5: the same names in a package of their own
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started

__all__ = ["JOB_TYPE", "EuterpeBackend", "run_tasks"]

JOB_TYPE: Final = "django.task"
STATUSES: Final = {
    State.RUNNING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.DEAD_LETTER: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
"""Every other state is READY: the task waits for its first attempt, or for its next."""
LEVELS: Final = ((60, Priority.CRITICAL), (20, Priority.HIGH), (-19, Priority.NORMAL), (-59, Priority.LOW))


class DjangoTask(Protocol):
    """A task as Django has it, as far as it is used here. Django has no types of its own."""

    module_path: str
    queue_name: str
    priority: int
    run_after: datetime | None
    takes_context: bool
    func: Callable[..., Any]

    def call(self, *args: object, **kwargs: object) -> object: ...

    def get_backend(self) -> EuterpeBackend: ...


class DjangoResult(Protocol):
    """What Django tells of a task that was enqueued."""

    id: str
    status: object
    worker_ids: list[str]


def run_tasks(queue: Queue, /, **options: Unpack[Options]) -> None:
    """Declare the job type that runs Django's tasks on this queue. `options` are those of `queue.job`, such as
    `max_attempts` and `timeout`.

    Example:
        queue = euterpe.Queue("postgresql://shop@db/shop")
        run_tasks(queue, max_attempts=5)
    """

    @queue.job(JOB_TYPE, **options)
    async def run_task(ctx: Context, task: str, backend: str, args: list[Any], kwargs: dict[str, Any]) -> object:
        found = _task_of(task, backend)
        owner = found.get_backend()
        started = owner.started(found, ctx, args, kwargs)
        task_started.send(type(owner), task_result=started)
        given = [TaskContext(task_result=started), *args] if found.takes_context else args
        if iscoroutinefunction(found.func):
            returned = await found.func(*given, **kwargs)
        else:
            returned = await asyncio.to_thread(_call_blocking, found, given, kwargs)
        object.__setattr__(started, "status", TaskResultStatus.SUCCESSFUL)
        task_finished.send(type(owner), task_result=started)
        return returned


def _call_blocking(task: DjangoTask, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Django keeps a connection for each thread; one that the server has closed since must not fail the task."""
    close_old_connections()
    try:
        return task.call(*args, **kwargs)
    finally:
        close_old_connections()


class EuterpeBackend(BaseTaskBackend):  # type: ignore[misc]  # Django has no types
    """Runs Django's tasks on a queue. It supports everything in Django's interface."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._place = self.options.get("queue")
        self._database = self.options.get("database")
        if not isinstance(self._place, str):
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]: OPTIONS needs 'queue', the dotted path of a euterpe.Queue, as in 'shop.jobs.queue'"
            )

    @property
    def queue(self) -> Queue:
        """The queue. Raises ImproperlyConfigured if the path is not a queue, or if `run_tasks` was not called on it."""
        queue = import_string(self._place)
        if not isinstance(queue, Queue):
            raise ImproperlyConfigured(f"TASKS[{self.alias!r}]: {self._place} is not a euterpe.Queue")
        return queue

    def enqueue(self, task: DjangoTask, args: Sequence[object], kwargs: Mapping[str, object]) -> DjangoResult:
        """Store the task as a job. Inside `transaction.atomic()` on `database`, it is part of the transaction."""
        self.validate_task(task)
        payload = {"task": task.module_path, "backend": self.alias, "args": list(args), "kwargs": dict(kwargs)}
        connection = connections[self._database] if self._database is not None else None
        if connection is not None and not connection.in_atomic_block:
            connection = None
        options: Options = {"queue": task.queue_name, "priority": _priority_of(task.priority)}
        if task.run_after is not None:
            options["run_at"] = task.run_after
        try:
            handle = self.queue.sync.submit(JOB_TYPE, payload, connection=connection, **options)
        except InvalidInput as error:
            if error.field in ("args", "kwargs"):
                raise TypeError(f"the arguments of {task.module_path} cannot be stored as JSON: {error}") from error
            raise
        result = self._result(task, handle.id, TaskResultStatus.READY, args, kwargs)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> DjangoResult:
        """Return the task as it is now. Raises TaskResultDoesNotExist."""
        try:
            job = self.queue.sync.get(result_id)
        except JobNotFound as error:
            raise TaskResultDoesNotExist(result_id) from error
        if job.type != JOB_TYPE:
            raise TaskResultDoesNotExist(result_id)
        attempts = self.queue.sync.attempts(result_id)
        payload = job.payload
        task = _task_of(payload["task"], self.alias)
        result = self._result(
            task,
            job.id,
            STATUSES.get(job.state, TaskResultStatus.READY),
            payload["args"],
            payload["kwargs"],
            job,
            attempts,
        )
        object.__setattr__(result, "_return_value", job.result)
        return result

    def started(
        self, task: DjangoTask, ctx: Context, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> DjangoResult:
        """The result that a running task sees of itself."""
        result = self._result(task, ctx.job_id, TaskResultStatus.RUNNING, args, kwargs)
        result.worker_ids.extend(["euterpe"] * ctx.attempt)
        return result

    def _result(
        self,
        task: DjangoTask,
        job_id: str,
        status: object,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        job: Job | None = None,
        attempts: list[Attempt] | None = None,
    ) -> DjangoResult:
        tried = attempts or []
        result: DjangoResult = TaskResult(
            task=task,
            id=job_id,
            status=status,
            enqueued_at=job.created_at if job is not None else None,
            started_at=tried[0].started_at if tried else None,
            last_attempted_at=tried[-1].started_at if tried else None,
            finished_at=job.completed_at if job is not None else None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[_error_of(attempt.error) for attempt in tried if attempt.error is not None],
            worker_ids=[attempt.worker_id or "" for attempt in tried],
        )
        return result


def _error_of(error: JobError) -> object:
    return TaskError(exception_class_path="euterpe.JobFailed", traceback=error.stack or error.message)


def _task_of(path: str, alias: str) -> DjangoTask:
    task: DjangoTask = import_string(path).using(backend=alias)
    return task


def _priority_of(number: int) -> Priority:
    """Django has -100 to 100, and 0 as usual; we have five levels."""
    return next((level for least, level in LEVELS if number >= least), Priority.BULK)
