"""Acting on everything that matches a query: count, ask, order, and look on until it is done.

The command works on the operation itself, as every process with the database does; whoever stops it loses nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeVar

import click
import msgspec

from euterpe.backends.engines import Backend
from euterpe.cli.output import confirm, note, print_json, print_line
from euterpe.cli.session import CliSession
from euterpe.model.bulk import Action, BulkOperation, BulkOrder, JobCount, OperationState, operation_document
from euterpe.model.errors import CommitUnknown
from euterpe.model.reading.job_query import parse_query
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.ports import OUTBOX_CHANNEL

LOOK_AGAIN_S: Final = 0.2
INTERRUPTED: Final = 130
Function = TypeVar("Function", bound=Callable[..., None])
Show = Callable[[BulkOperation], None]


def query_options(function: Function) -> Function:
    """`--query` and what goes with it."""
    for option in (
        click.option("--detach", is_flag=True, help="With --query: do not wait for the operation to end."),
        click.option("-q", "--query", metavar="QUERY", help="All jobs that match, such as: state:failed type:report.*"),
    ):
        function = option(function)
    return function


def check_ids_or_query(job_ids: tuple[str, ...], query: str | None, *, detach: bool) -> None:
    if bool(job_ids) == (query is not None):
        raise click.UsageError("name jobs by their ids, or choose them by --query")
    if detach and query is None:
        raise click.UsageError("--detach goes with --query")


def act_on_matching(
    session: CliSession,
    action: Action,
    query: str,
    *,
    force: bool = False,
    yes: bool = False,
    detach: bool = False,
    as_json: bool = False,
) -> None:
    """Exit 1 when a job could not be acted on."""
    search = parse_query(query, time.time_ns() // 1000)
    order = BulkOrder(
        action=action,
        query=query,
        search=search,
        ordered_by=LOCAL_REQUESTER,
        force=force,
        key=secrets.token_hex(16),
    )
    if not yes:
        again = action is not Action.CANCEL
        counted = session.ask(lambda backend: backend.store.operations.count(search, dependents=again))
        if counted.cause is not None:
            note(f"they failed with {counted.cause}")
        confirm(f"{action.capitalize()} {count_text(counted)} that match {query}{dependents_text(counted)}?", yes=False)

    async def run(backend: Backend) -> BulkOperation:
        operation = await _ordered(backend, order)
        return operation if detach else await _followed(backend, operation, quiet=as_json)

    show_operation(session.ask(run), as_json=as_json)


def count_text(counted: JobCount) -> str:
    number = f"{counted.count:,} job{'' if counted.count == 1 else 's'}"
    return number if counted.exact else f"more than {number}"


def dependents_text(counted: JobCount) -> str:
    """What is replayed beside those that match, as far as there is anything."""
    if not counted.dependents:
        return ""
    jobs = "job" if counted.dependents == 1 else "jobs"
    least = "" if counted.dependents_exact else "at least "
    return f", and {least}{counted.dependents:,} {jobs} that ended because of them"


async def _ordered(backend: Backend, order: BulkOrder) -> BulkOperation:
    """Its key makes it safe to ask twice, should the answer get lost."""
    try:
        operation, _ = await backend.store.operations.order(order)
    except CommitUnknown:
        operation, _ = await backend.store.operations.order(order)
    return operation


async def _followed(backend: Backend, operation: BulkOperation, *, quiet: bool) -> BulkOperation:
    with _progress(operation, quiet=quiet) as show:
        try:
            while operation.state is OperationState.RUNNING:
                worked = await backend.store.sweeps.work_operations()
                if worked.done:
                    backend.wakeups.announce([*dict.fromkeys(worked.queues), OUTBOX_CHANNEL])
                operation = await backend.store.operations.get(operation.id)
                show(operation)
                if not worked.done and operation.state is OperationState.RUNNING:
                    await asyncio.sleep(LOOK_AGAIN_S)
        except (KeyboardInterrupt, asyncio.CancelledError):
            note(f"\nIt goes on where the queue runs. Look: euterpe operations show {operation.id}")
            raise click.exceptions.Exit(INTERRUPTED) from None
    return operation


def _progress(operation: BulkOperation, *, quiet: bool) -> AbstractContextManager[Show]:
    if quiet or not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    return _Bar(operation)


class _Bar:
    """A bar at a terminal. Without an exact count nobody knows how long it is."""

    def __init__(self, operation: BulkOperation) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        total = operation.total if operation.total_exact else None
        self._task = self._bars.add_task(str(operation.action), total=total)

    def __enter__(self) -> Show:
        self._bars.start()
        return lambda operation: self._bars.update(self._task, completed=operation.examined)

    def __exit__(self, *_: object) -> None:
        self._bars.stop()


def show_operation(operation: BulkOperation, *, as_json: bool) -> None:
    """An operation in a line or two; exit 1 when it failed on a job."""
    if as_json:
        print_json(msgspec.to_builtins(operation_document(operation)))
    else:
        print_line(f"{operation.id}  {operation_text(operation)}")
        if operation.error is not None:
            note(f"euterpe: {operation.failed:,} could not be acted on; the last one: {operation.error}")
        if operation.state is OperationState.RUNNING:
            note(f"next: euterpe operations show {operation.id}")
    if operation.failed:
        raise click.exceptions.Exit(1)


def operation_text(operation: BulkOperation) -> str:
    counted = count_text(JobCount(operation.total, operation.total_exact))
    parts = [f"{operation.action} {operation.state}: {operation.done:,} of {counted} done"]
    if operation.dependents:
        parts.append(f"{operation.dependents:,} that ended because of them")
    parts += [f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(operation.skipped.items())]
    if operation.failed:
        parts.append(f"{operation.failed:,} failed")
    return ", ".join(parts)
