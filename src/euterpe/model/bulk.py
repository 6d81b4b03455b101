"""An act on everything that matches a query: what is asked for, how far it is, and which jobs it passes over.

An operation is worked off in small pieces by whatever process comes by. It acts on jobs that were there when it was
asked for, and that matched then: a job that moves later does not join.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from euterpe.model.errors import InvalidInput
from euterpe.model.job import JobRow
from euterpe.model.reading.document import rfc3339
from euterpe.model.reading.views import Search
from euterpe.model.state import TERMINAL, State

COUNTED: Final = 10_000
"""Jobs of a query are counted up to here; behind it the answer is "more than"."""
DEPENDENTS_OF: Final = 1_000
"""Jobs of a query whose dependents are counted."""
LOOKED_AT: Final = 100_000
"""Jobs that a count looks at, whether they match or not."""
BATCH: Final = 100
"""Jobs of one transaction."""


class Action(StrEnum):
    """What is done to each job."""

    CANCEL = "cancel"
    RETRY = "retry"
    """A failed job with budget left goes on; any other ended one is replayed."""
    REPLAY = "replay"
    """An ended job is submitted again, as a new one."""


class OperationState(StrEnum):
    """Where an operation is."""

    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Skipped(StrEnum):
    """Why a job that matches is passed over."""

    ALREADY_ENDED = "already_ended"
    NOT_ENDED = "not_ended"
    CHANGED_SINCE = "changed_since"
    """It entered its state after the operation was asked for."""
    GONE = "gone"
    DEPENDENCY_ENDED = "dependency_ended"
    """What it waited for ended badly. It is replayed behind that one, and not before."""
    UNIQUE_KEY_TAKEN = "unique_key_taken"
    """Another job with its unique key waits or runs."""
    REPLAYED_SINCE = "replayed_since"
    """Another job runs it again by now: another operation was faster, or this one is about those that none does."""


class JobCount(msgspec.Struct, frozen=True):
    """How many jobs match. Not exact: there are at least so many."""

    count: int
    exact: bool
    dependents: int | None = None
    """Where it was asked for: jobs that do not match and ended because of one that does. They are replayed with it."""
    dependents_exact: bool = True
    cause: str | None = None
    """What they failed with, in words, where they were asked for by their fingerprint."""


class BulkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asks for. `search` is what `query` meant at that moment, `search.requester_id` whose jobs it is
    about; with a key the same order is one operation, however often it comes."""

    action: Action
    query: str
    search: Search
    ordered_by: str
    force: bool = False
    key: str | None = None


class BulkOperation(msgspec.Struct, frozen=True):
    """An operation as stored, in the order of `operation_columns.sql`. Times are microseconds since the epoch."""

    id: str
    ordered_by: str
    requester_id: str | None
    """Whose jobs; None: everybody's."""
    action: Action
    force: bool
    query: str
    """As it was said."""
    resolved: str
    """The same query with its ages as moments."""
    state: OperationState
    place: int
    """Jobs from here up are done with."""
    total: int
    total_exact: bool
    done: int
    dependents: int
    """Jobs that were replayed beside these: they had ended because of one of them."""
    skipped: dict[str, int]
    """How many were passed over, by reason."""
    failed: int
    error: str | None
    """Of the last job that could not be acted on."""
    created_at: int
    updated_at: int
    completed_at: int | None
    cause: str | None = None
    """What its jobs had failed with, in words, where they were asked for by their fingerprint."""

    @property
    def examined(self) -> int:
        return self.done + self.failed + sum(self.skipped.values())


class BulkProgress(msgspec.Struct, frozen=True):
    """What one piece of work did."""

    queues: tuple[str, ...] = ()
    """Of jobs that can be claimed now, one entry a job."""
    replayed: tuple[str, ...] = ()
    """Those of them that are new jobs."""
    done: int = 0
    more: bool = False
    """Whether there is more to do right now."""


def check_order(order: BulkOrder) -> None:
    """InvalidInput names what cannot be asked for."""
    if not order.query.strip():
        raise InvalidInput("q", "says nothing, and that is every job; say which, as in state:failed type:report.*")
    if order.force and order.action is not Action.CANCEL:
        raise InvalidInput("force", f"is for cancel only, and this is {order.action}")


def watches_moves(search: Search) -> bool:
    """Whether the query asks for what changes when a job moves. One that does not matched every job before, too."""
    return search.state is not None or search.error is not None or search.fingerprint is not None


def watches_replays(search: Search) -> bool:
    """Whether a job that somebody else has replayed meanwhile does not match any more."""
    return search.fingerprint is not None or search.replayed is False


def why_skipped(job: JobRow, action: Action, created_at: int, *, watching: bool) -> Skipped | None:
    """Why this job is passed over; None: it is acted on."""
    if watching and _moved_at(job) > created_at:
        return Skipped.CHANGED_SINCE
    if action is Action.CANCEL:
        return Skipped.ALREADY_ENDED if job.state in TERMINAL else None
    return None if job.state in TERMINAL else Skipped.NOT_ENDED


def _moved_at(job: JobRow) -> int:
    """When it entered its state. A running job is updated by its worker all the time."""
    if job.state is State.RUNNING:
        return job.started_at or 0
    return job.updated_at if job.completed_at is None else job.completed_at


def operation_document(operation: BulkOperation) -> dict[str, object]:
    """An operation as the API and the command line show it."""
    return {
        "operation_id": operation.id,
        "action": str(operation.action),
        "force": operation.force,
        "query": operation.query,
        "cause": operation.cause,
        "requester": operation.requester_id,
        "state": str(operation.state),
        "total": operation.total,
        "total_exact": operation.total_exact,
        "done": operation.done,
        "dependents": operation.dependents,
        "skipped": operation.skipped,
        "failed": operation.failed,
        "error": operation.error,
        "created_at": rfc3339(operation.created_at),
        "updated_at": rfc3339(operation.updated_at),
        "completed_at": rfc3339(operation.completed_at),
    }
