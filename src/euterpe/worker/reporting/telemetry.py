"""Records the metrics of an exchange: one call for all jobs of a queue and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Final, NamedTuple, assert_never

from euterpe.model.claims.exchange import Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.failures.failure import Category
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.ports import Telemetry


class NoTelemetry:
    """A telemetry that listens to nothing, for workers nobody measures."""

    def produced(self, queue: str, count: int = 1) -> None: ...
    def claimed(self, queue: str, latencies_s: Sequence[float]) -> None: ...
    def settled(
        self, queue: str, state: str, count: int, durations_s: Sequence[float] = (), reason: str = "other"
    ) -> None: ...
    def attempts_ended(self, job_type: str, outcome: str, durations_s: Sequence[float]) -> None: ...
    def retried(self, queue: str, count: int = 1) -> None: ...
    def dead_lettered(self, queue: str, count: int = 1) -> None: ...
    def reclaimed(self, count: int = 1) -> None: ...
    def adopted(self, count: int = 1) -> None: ...
    def reaper_moved(self, count: int = 1) -> None: ...
    def housekept(self, chore: str, count: int) -> None: ...
    def outbox_attempts(self, outcome: str, count: int = 1) -> None: ...
    def outbox_dead_lettered(self, count: int = 1) -> None: ...
    def stale_write(self, count: int = 1) -> None: ...
    def breaker_state(self, queue: str, code: int) -> None: ...


_QUEUE: Final = attrgetter("queue")
_KIND: Final = attrgetter("claim.job.queue", "claim.job.type")
_TOOK_S: Final = attrgetter("took_s")


def record_claims(telemetry: Telemetry, claims: Sequence[Claim]) -> None:
    if isinstance(telemetry, NoTelemetry):
        return
    jobs = [claim.job for claim in claims]
    queues = set(map(_QUEUE, jobs))
    for queue in queues:
        of_queue = jobs if len(queues) == 1 else [job for job in jobs if job.queue == queue]
        waits_us = [(job.started_at or 0) - (job.scheduled_at or job.created_at) for job in of_queue]
        telemetry.claimed(queue, [wait_us / 1_000_000 if wait_us > 0 else 0.0 for wait_us in waits_us])


def record_completed(telemetry: Telemetry, finished: Sequence[Report]) -> None:
    """All of them: the common exchange."""
    if isinstance(telemetry, NoTelemetry):
        return
    kinds = list(map(_KIND, finished))
    for kind in (distinct := set(kinds)):
        queue, job_type = kind
        all_took_s = map(_TOOK_S, finished)
        took_s = list(all_took_s if len(distinct) == 1 else compress(all_took_s, map(kind.__eq__, kinds)))
        telemetry.settled(queue, State.COMPLETED, len(took_s), took_s)
        telemetry.attempts_ended(job_type, State.COMPLETED, took_s)


def record_settled(telemetry: Telemetry, finished: Sequence[Report], verdicts: Sequence[SettleResult]) -> int:
    """Returns how many were stale."""
    ended: dict[AttemptEnd, list[float]] = {}
    stale = 0
    for f, verdict in zip(finished, verdicts, strict=True):
        if verdict.accepted and verdict.state is not None:
            job = f.claim.job
            end = AttemptEnd(job.queue, job.type, verdict.state, reason_of(f.outcome))
            ended.setdefault(end, []).append(f.took_s)
        else:
            stale += 1
    record_ends(telemetry, ended)
    if stale:
        telemetry.stale_write(stale)
    return stale


class AttemptEnd(NamedTuple):
    """What attempts that are counted together have in common."""

    queue: str
    type: str
    state: str
    reason: str

    @property
    def outcome(self) -> str:
        if self.state == State.COMPLETED:
            return "completed"
        if self.state == State.SCHEDULED:
            return "released"
        return Category.CANCELLED.value if self.state == State.CANCELLED else self.reason


def record_ends(telemetry: Telemetry, ended: Mapping[AttemptEnd, Sequence[float]]) -> None:
    """How long each attempt took, by what they have in common."""
    for end, durations_s in ended.items():
        telemetry.settled(end.queue, end.state, len(durations_s), durations_s, end.reason)
        telemetry.attempts_ended(end.type, end.outcome, durations_s)


def reason_of(outcome: Outcome) -> str:
    """The category that an attempt counts under, should its job not have completed by it. Whoever returned then left
    its stages unfinished; whoever gave back did so once too often."""
    if isinstance(outcome, Failed):
        return outcome.failure.category.value
    return _REASONS[type(outcome)]


_REASONS: Final[dict[type[Outcome], str]] = {
    Success: Category.PERMANENT.value,
    Released: Category.SYSTEM.value,
    Cancelled: Category.CANCELLED.value,
}


def outcome_name(outcome: Outcome | None) -> str:
    """How a run ended, in the word that its attempt is closed with; None: the lease was lost to another claim."""
    match outcome:
        case Success():
            return "completed"
        case Failed(failure):
            return "released" if failure.unfit else str(failure.category)
        case Released():
            return "released"
        case Cancelled():
            return "cancelled"
        case None:
            return "lost_lease"
        case _:
            assert_never(outcome)
