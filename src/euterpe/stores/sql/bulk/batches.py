"""One batch of an operation: its jobs are acted on and its place moves on in one transaction, or neither.

Whoever is killed in between has done nothing; who comes next begins at the same place. So every job is acted on once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

import msgspec

from euterpe.model.bulk import (
    Action,
    BulkOperation,
    BulkProgress,
    OperationState,
    Skipped,
    watches_moves,
    watches_replays,
    why_skipped,
)
from euterpe.model.claims.outcome import taken_away
from euterpe.model.errors import EuterpeError, IdempotencyConflict, IllegalTransition, UnprocessableRow
from euterpe.model.job import JobRow
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.views import Search
from euterpe.model.state import By, State
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.replay import replay_of
from euterpe.model.submitting.replayed import REPLAY_KEY
from euterpe.model.submitting.submission import IDEMPOTENCY_WINDOW_US, Submission, check
from euterpe.stores.sql.jobs import settle
from euterpe.stores.sql.maintenance.operator import CANCELLED_BY_FORCE, CANCELLED_BY_REQUEST, schedule_again
from euterpe.stores.sql.maintenance.replay import ended_by_another, replay_held, submit_and_mark
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.reads.matching import Matching, matching
from euterpe.stores.sql.rows import job_from
from euterpe.stores.sql.statements import Family

LOCK_WAIT_MS = 1000
"""For jobs that somebody holds: then the batch is left for the next time."""


class Tally(msgspec.Struct):
    """What became of the jobs of a batch."""

    done: int = 0
    dependents: int = 0
    failed: int = 0
    error: str | None = None
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    queues: list[str] = []
    replayed: list[str] = []

    def fail(self, error: object) -> None:
        self.failed += 1
        self.error = str(error)[:500]


def next_of(operation: BulkOperation, limit: int) -> Program[Matching]:
    """The jobs of the next batch. Read outside the transaction that acts on them, which looks at each again."""
    return (yield from matching(search_of(operation), operation.place, limit))


def search_of(operation: BulkOperation) -> Search:
    found = parse_query(operation.resolved, operation.created_at)
    return msgspec.structs.replace(found, requester_id=operation.requester_id)


def act(operation: BulkOperation, found: Matching, family: Family, payload_limit: int) -> Program[BulkProgress | None]:
    """Act on a batch and move on; None: somebody else has done it, or is at it, or the operation was cancelled."""
    yield one("bound_lock_waits", wait_ms=LOCK_WAIT_MS)
    if not (yield one("hold_operation", id=operation.id, place=operation.place)):
        return None
    tally = Tally()
    rows = (yield one("get_jobs_for_update", ids=sorted(found.ids))) if found.ids else []
    tally.skipped[Skipped.GONE] += len(found.ids) - len(rows)
    search = search_of(operation)
    watching = watches_moves(search)
    replayed = (yield from _replayed(found.ids)) if operation.action is not Action.CANCEL else set()
    jobs: list[JobRow] = []
    for row in rows:
        try:
            job = job_from(row)
        except UnprocessableRow as unreadable:
            tally.fail(unreadable)
            continue
        skipped = why_skipped(job, operation.action, operation.created_at, watching=watching)
        if skipped is None and job.id in replayed and watches_replays(search):
            skipped = Skipped.REPLAYED_SINCE
        if skipped is None:
            jobs.append(job)
        else:
            tally.skipped[skipped] += 1
    if operation.action is Action.CANCEL:
        yield from _cancel(jobs, family, tally, force=operation.force)
    else:
        go_on = {job.id for job in jobs} - replayed if operation.action is Action.RETRY else set()
        yield from _again(jobs, payload_limit, tally, go_on)
    return (yield from _advance(operation, found, tally))


def _replayed(ids: list[str]) -> Program[set[str]]:
    """Those of these jobs, which this transaction holds, that another one runs again."""
    return {row[0] for row in (yield one("replayed_of", ids=ids))} if ids else set()


def give_up(operation: BulkOperation, found: Matching, error: str) -> Program[BulkProgress | None]:
    """The database refuses to let these jobs be acted on: they count as failed, and the others go on."""
    tally = Tally(failed=len(found.ids), error=error)
    return (yield from _advance(operation, found, tally))


def abandon(operation_id: str, place: int, error: str, skipped: Mapping[str, int] | None = None) -> Program[None]:
    """A hand or another release wrote what nobody here can read. It must not be tried for ever."""
    yield one(
        "advance_operation",
        id=operation_id,
        seen=place,
        place=place,
        state=OperationState.CANCELLED,
        done=0,
        dependents=0,
        failed=0,
        error=error,
        skipped=msgspec.json.encode(skipped or {}).decode(),
    )


def _advance(operation: BulkOperation, found: Matching, tally: Tally) -> Program[BulkProgress | None]:
    over = found.next_place is None
    rows = yield one(
        "advance_operation",
        id=operation.id,
        seen=operation.place,
        place=0 if found.next_place is None else found.next_place,
        state=OperationState.COMPLETED if over else OperationState.RUNNING,
        done=tally.done,
        dependents=tally.dependents,
        failed=tally.failed,
        error=tally.error,
        skipped=msgspec.json.encode(dict(+(Counter(operation.skipped) + tally.skipped))).decode(),
    )
    return BulkProgress(tuple(tally.queues), tuple(tally.replayed), tally.done, more=not over) if rows else None


def _cancel(jobs: Sequence[JobRow], family: Family, tally: Tally, *, force: bool) -> Program[None]:
    """As `operator.cancel`, for many."""
    pairs = []
    for job in jobs:
        if job.state is State.RUNNING and not force:
            yield one("request_cancel", id=job.id, claim_version=job.claim_version)
        else:
            reason = CANCELLED_BY_FORCE if job.state is State.RUNNING else CANCELLED_BY_REQUEST
            pairs.append((job, taken_away(job, State.CANCELLED, reason, By.OPERATOR)))
    if pairs:
        yield from settle.take_away(pairs, family)
    tally.done += len(jobs)


def _again_in_its_graph(job: JobRow, payload_limit: int, tally: Tally, *, as_itself: bool) -> Program[None]:
    """No dependent runs before its dependency. What was replayed before, perhaps by this operation, is not again."""
    try:
        replayed = yield from replay_held(job, payload_limit, IDEMPOTENCY_WINDOW_US, as_itself=as_itself)
    except IllegalTransition:
        # A job with a unique key depends on none.
        tally.skipped[Skipped.DEPENDENCY_ENDED if job.dependency is not None else Skipped.UNIQUE_KEY_TAKEN] += 1
        return
    except EuterpeError as refused:
        tally.fail(refused)
        return
    tally.done += 1
    first = replayed.first
    if isinstance(first, JobRow):
        tally.queues.append(first.queue)
    elif not first.replayed:
        tally.replayed.append(first.queue)
    tally.dependents += len(replayed.dependents)
    tally.replayed += [submitted.queue for submitted in replayed.dependents]


def _again(jobs: Sequence[JobRow], payload_limit: int, tally: Tally, go_on: Set[str]) -> Program[None]:
    """As `operator.retry`, for many. Those of `go_on` that failed with budget left run as themselves; the others are
    replayed. The key of a replay is that of `maintenance.replay`: whoever asks for it, there is one of a job."""
    replays: list[Submission] = []
    # What ended by itself takes along what ended because of it.
    for job in sorted(jobs, key=ended_by_another):
        if job.dependency is not None or job.has_dependents:
            yield from _again_in_its_graph(job, payload_limit, tally, as_itself=job.id in go_on)
            continue
        if job.id in go_on and job.state is State.FAILED and job.attempt_count < job.max_attempts:
            try:
                yield from schedule_again(job)
            except IllegalTransition:
                tally.skipped[Skipped.UNIQUE_KEY_TAKEN] += 1
                continue
            tally.done += 1
            tally.queues.append(job.queue)
            continue
        try:
            replay = msgspec.structs.replace(replay_of(job), idempotency_key=f"{REPLAY_KEY}{job.id}")
            check(replay, payload_limit)
        except EuterpeError as refused:
            tally.fail(refused)
        else:
            replays.append(replay)
    if replays:
        answers = yield from submit_and_mark([Unit((draft,)) for draft in drafts_of(replays)], IDEMPOTENCY_WINDOW_US)
        for answer in answers:
            if isinstance(answer, IdempotencyConflict) or (not isinstance(answer, EuterpeError) and answer[0].replayed):
                tally.skipped[Skipped.REPLAYED_SINCE] += 1  # perhaps by another operation
            elif isinstance(answer, EuterpeError):
                tally.fail(answer)
            else:
                tally.done += 1
                tally.replayed += [submitted.queue for submitted in answer]
    tally.queues += tally.replayed
