"""Why a job is where it is: one true sentence about its situation, for people and for programs.

The store reads the situation in at most three index reads; which sentence it makes is decided here, without I/O.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from euterpe.model.claims.presence import SILENCE_US, ClaimingWorkers
from euterpe.model.duration import SECOND_US, format_duration
from euterpe.model.failures.failure import BAD_PAYLOAD, CIRCUIT_OPEN, NOT_ITS_TURN
from euterpe.model.job import LOST_ATTEMPTS, UNFIT_CLAIMS, count_in, read_error
from euterpe.model.reading.document import rfc3339
from euterpe.model.state import TERMINAL, State

AHEAD_LIMIT: Final = 1_000
"""Jobs ahead are counted up to here: nobody needs to know which of a million one is."""
BLOCKERS_NAMED: Final = 3


class Reason(StrEnum):
    """What keeps a job from running, or what became of it."""

    LIFETIME_OVER = "lifetime_over"
    DEPENDENCY = "dependency"
    DELAYED = "delayed"
    BACKOFF = "backoff"
    DUE = "due"
    QUEUE_PAUSED = "queue_paused"
    TYPE_PAUSED = "type_paused"
    CONCURRENCY_KEY = "concurrency_key"
    PARKED = "parked"
    NO_WORKER = "no_worker"
    NO_WORKER_ON_QUEUE = "no_worker_on_queue"
    NO_WORKER_FOR_TYPE = "no_worker_for_type"
    BREAKER_OPEN = "breaker_open"
    NO_ANSWER = "no_answer"
    POSITION = "position"
    NEXT = "next"
    RUNNING = "running"
    LEASE_EXPIRED = "lease_expired"
    CANCEL_REQUESTED = "cancel_requested"
    ENDED = "ended"


class Blocker(msgspec.Struct, frozen=True):
    """A job that another one waits for."""

    job_id: str
    type: str
    state: str
    worker_id: str | None


class Situation(msgspec.Struct, frozen=True):
    """A job without what is large, and what is around it, field for field in the order of `situation.sql`."""

    job_id: str
    requester_id: str
    queue: str
    type: str
    state: State
    priority: int
    seq: int
    attempt_count: int
    max_attempts: int
    run_at: int
    expires_at: int
    started_at: int | None
    completed_at: int | None
    lease_expires_at: int | None
    worker_id: str | None
    cancel_requested: bool
    pending_dependencies: int
    concurrency_key: str | None
    concurrency_limit: int | None
    parked: bool
    error: str | None
    queue_paused: bool
    type_paused: bool
    now: int
    ahead: int = 0
    """Counted up to AHEAD_LIMIT + 1."""
    blockers: tuple[Blocker, ...] = ()
    """Unfinished dependencies of a pending job; running jobs of the key of a scheduled one. The first few."""
    blocker_count: int = 0
    service: ClaimingWorkers | None = None
    """Which workers would claim a scheduled job; None: not known."""


class Explanation(msgspec.Struct, frozen=True):
    """`until`: when this reason ends by itself, if that is known. `ahead` is None unless the job stands in line."""

    job_id: str
    state: str
    reason: Reason
    sentence: str
    until: str | None = None
    ahead: int | None = None
    blocked_by: tuple[Blocker, ...] = ()


def explain(found: Situation) -> Explanation:
    """The first thing that is in the way, in the order in which a claim would meet it."""
    if found.state in TERMINAL:
        return _explanation(found, Reason.ENDED, _end(found))
    if found.state is State.RUNNING:
        return _running(found)
    if found.expires_at <= found.now:
        return _explanation(
            found,
            Reason.LIFETIME_OVER,
            f"Its lifetime ended {_at(found, found.expires_at)}; the next sweep moves it to the dead letters.",
        )
    if found.state is State.PENDING:
        return _pending(found)
    if found.state in (State.DELAYED, State.RETRYING):
        return _not_due(found)
    return _scheduled(found)


def _running(found: Situation) -> Explanation:
    until = found.lease_expires_at or found.now
    if until < found.now:
        text = f"Its lease ran out {_at(found, until)}: worker {found.worker_id} does not renew it any more; "
        return _explanation(found, Reason.LEASE_EXPIRED, text + "the next sweep takes the job back.")
    attempt = f"attempt {found.attempt_count} of {found.max_attempts}"
    where = f"on worker {found.worker_id} since {_moment(found.started_at)}"
    if found.cancel_requested:
        text = f"It was asked to stop and still runs, {attempt}, {where}."
        return _explanation(found, Reason.CANCEL_REQUESTED, text)
    return _explanation(found, Reason.RUNNING, f"It is running, {attempt}, {where}.")


def _pending(found: Situation) -> Explanation:
    waits = f"It waits for {_count(found.pending_dependencies, 'job')} to end"
    if found.blockers:
        first = found.blockers[0]
        waits += f", among them {first.type} {first.job_id}, which is {first.state}"
        if found.pending_dependencies == 1:
            waits = f"It waits for {first.type} {first.job_id} to end, which is {first.state}"
    return _explanation(found, Reason.DEPENDENCY, waits + ".", blocked_by=found.blockers)


def _not_due(found: Situation) -> Explanation:
    if found.run_at <= found.now:
        text = f"It was due {_at(found, found.run_at)}; the next sweep puts it into queue {found.queue!r}."
        return _explanation(found, Reason.DUE, text)
    if found.state is State.DELAYED:
        text = f"It is delayed until {_moment(found.run_at)}, in {_span(found.run_at - found.now)}."
        return _explanation(found, Reason.DELAYED, text, until=found.run_at)
    if found.error is not None and UNFIT_CLAIMS in (error := read_error(found.error)):
        if error.get("code") == CIRCUIT_OPEN:
            text = (
                f"When a worker claimed it last, {error.get('message')}. The next claim is at {_moment(found.run_at)}, "
                f"in {_span(found.run_at - found.now)}; `euterpe failures list` tells what fails."
            )
            return _explanation(found, Reason.BREAKER_OPEN, text, until=found.run_at)
        text = (
            f"{_left_because(error)}, without a charge; the next claim is at {_moment(found.run_at)}, "
            f"in {_span(found.run_at - found.now)}."
        )
        return _explanation(found, Reason.BACKOFF, text, until=found.run_at)
    text = (
        f"Attempt {found.attempt_count} of {found.max_attempts} ended badly{_because(found)}; "
        f"the next one waits for its backoff until {_moment(found.run_at)}, in {_span(found.run_at - found.now)}."
    )
    return _explanation(found, Reason.BACKOFF, text, until=found.run_at)


def _left_because(error: dict[str, Any]) -> str:
    lost = count_in(error, LOST_ATTEMPTS)
    match error.get("code"):
        case NOT_ITS_TURN.code if lost:
            before = (
                "it was running when its worker was lost" if lost == 1 else f"it has lost {lost:,} workers in a row"
            )
            return (
                f"It is a suspect: {before}. It waits for its turn to run, a few suspects at a time and at last alone"
            )
        case NOT_ITS_TURN.code:
            return "A suspect of a lost worker was running, and this job cannot afford to lose its worker. It waits"
        case code if code == BAD_PAYLOAD:
            return (
                f"The worker that claimed it last could not use its arguments ({error.get('message')}). It waits for a "
                "worker whose handler fits"
            )
        case _:
            return f"The worker that claimed it last could not start it ({error.get('message')}). It waits"


def _scheduled(found: Situation) -> Explanation:
    if found.queue_paused:
        text = f"Queue {found.queue!r} is paused; `euterpe resume --queue {found.queue}` lets workers claim from it."
        return _explanation(found, Reason.QUEUE_PAUSED, text)
    if found.type_paused:
        text = f"Job type {found.type!r} is paused; `euterpe resume --type {found.type}` lets workers claim it."
        return _explanation(found, Reason.TYPE_PAUSED, text)
    limit = found.concurrency_limit
    if found.concurrency_key is not None and limit is not None and found.blocker_count >= limit:
        return _key_is_full(found, limit)
    if found.parked and limit is None:
        text = f"The rate of key {found.concurrency_key!r} is spent; the job starts when there is a token for it."
        return _explanation(found, Reason.PARKED, text)
    if found.parked:
        text = f"Concurrency key {found.concurrency_key!r} has a free slot; the next sweep lets the job be claimed."
        return _explanation(found, Reason.PARKED, text)
    if found.service is not None and not found.service.knowing:
        return _unserved(found, found.service)
    if found.service is not None and found.service.open_until is not None:
        return _breaker_open(found, found.service.open_until)
    if found.service is not None and found.service.silent_since is not None:
        return _no_answer(found, found.service.knowing, found.service.silent_since)
    return _in_line(found)


def _no_answer(found: Situation, workers: int, since: int) -> Explanation:
    whoever = "The one worker that could claim it" if workers == 1 else f"All {workers:,} workers that could claim it"
    text = (
        f"{whoever} told nothing since {_moment(since)}, for {_span(found.now - since)}, and still "
        f"{'keeps' if workers == 1 else 'keep'} the leases of running jobs: a handler blocks the process. It claims "
        "again when that ends; start another worker, or let the handler run with `process=True`."
    )
    return _explanation(found, Reason.NO_ANSWER, text, ahead=found.ahead)


def _unserved(found: Situation, service: ClaimingWorkers) -> Explanation:
    """It names no worker and no other queue: a requester may read it."""
    app = f"whose app declares type {found.type!r}"
    start = f"`euterpe worker myapp:queue --queues {found.queue}`"
    if not service.alive:
        text = f"No worker is alive: none was heard of in the last {_span(SILENCE_US)}. Start one {app}: {start}."
        return _explanation(found, Reason.NO_WORKER, text, ahead=found.ahead)
    if not service.listening:
        alive = (
            "The one worker that is alive does not take"
            if service.alive == 1
            else (f"None of the {service.alive:,} workers that are alive takes")
        )
        text = f"{alive} from queue {found.queue!r}. Start one that does, {app}: {start}."
        return _explanation(found, Reason.NO_WORKER_ON_QUEUE, text, ahead=found.ahead)
    takes = _count(service.listening, "worker") + (" takes" if service.listening == 1 else " take")
    text = (
        f"{takes} from queue {found.queue!r}, and none knows type {found.type!r}. "
        f"Start one {app}, or import its module in the workers that are there."
    )
    return _explanation(found, Reason.NO_WORKER_FOR_TYPE, text, ahead=found.ahead)


def _breaker_open(found: Situation, until: int) -> Explanation:
    text = (
        f"The circuit breaker of {found.type} in queue {found.queue} is open on every worker that could claim it, "
        f"until {_moment(until)}, in {_span(until - found.now)}: too many of its jobs failed. Then one job is tried; "
        "`euterpe failures list` tells what fails."
    )
    return _explanation(found, Reason.BREAKER_OPEN, text, until=until, ahead=found.ahead)


def _key_is_full(found: Situation, limit: int) -> Explanation:
    names = ", ".join(f"{b.type} {b.job_id} on worker {b.worker_id}" for b in found.blockers)
    more = found.blocker_count - len(found.blockers)
    if more > 0:
        names += f" and {_count(more, 'more')}"
    text = f"Concurrency key {found.concurrency_key!r} lets {limit} run at once, and that many do: {names}."
    return _explanation(found, Reason.CONCURRENCY_KEY, text, blocked_by=found.blockers)


def _in_line(found: Situation) -> Explanation:
    if found.ahead > AHEAD_LIMIT:
        text = f"More than {AHEAD_LIMIT:,} jobs are ahead of it in queue {found.queue!r}."
        return _explanation(found, Reason.POSITION, text, ahead=found.ahead)
    if found.ahead:
        verb = "is" if found.ahead == 1 else "are"
        text = f"{_count(found.ahead, 'job')} {verb} ahead of it in queue {found.queue!r}."
        return _explanation(found, Reason.POSITION, text, ahead=found.ahead)
    text = (
        f"It is next in queue {found.queue!r}: the first free worker that takes from this queue "
        f"and knows type {found.type!r} claims it."
    )
    return _explanation(found, Reason.NEXT, text, ahead=0)


def _end(found: Situation) -> str:
    attempts = _count(found.attempt_count, "attempt")
    at = _at(found, found.completed_at)
    match found.state:
        case State.COMPLETED:
            return f"It completed {at}, after {attempts}."
        case State.CANCELLED:
            return f"It was cancelled {at}{_because(found)}."
        case State.FAILED:
            return f"It failed {at}, after {attempts}{_because(found)}; a retry runs it again."
        case _:
            return f"It went to the dead letters {at}, after {attempts}{_because(found)}; a retry runs it as a new job."


def _explanation(
    found: Situation,
    reason: Reason,
    sentence: str,
    *,
    until: int | None = None,
    ahead: int | None = None,
    blocked_by: tuple[Blocker, ...] = (),
) -> Explanation:
    return Explanation(found.job_id, str(found.state), reason, sentence, rfc3339(until), ahead, blocked_by)


def _because(found: Situation) -> str:
    if found.error is None:
        return ""
    error = read_error(found.error)
    return f" ({error.get('code')}: {error.get('message')})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 or noun == "more" else "s")


def _moment(at_us: int | None) -> str:
    text = rfc3339(at_us)
    return "an unknown time" if text is None else text[:19].replace("T", " ") + " UTC"


def _at(found: Situation, at_us: int | None) -> str:
    if at_us is None:
        return "at an unknown time"
    return f"at {_moment(at_us)}, {_span(found.now - at_us)} ago"


def _span(duration_us: int) -> str:
    """In its two largest units: nobody reads the milliseconds of a day."""
    if duration_us < SECOND_US:
        return "less than a second"
    for unit_us in (86_400 * SECOND_US, 3_600 * SECOND_US, 60 * SECOND_US):
        if duration_us >= unit_us:
            smaller_us = unit_us // (24 if unit_us > 3_600 * SECOND_US else 60)
            return format_duration(duration_us // smaller_us * smaller_us)
    return format_duration(duration_us // SECOND_US * SECOND_US)
