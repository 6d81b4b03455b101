"""What the queue tells about itself: counts, durations, spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from euterpe.model.job import Claim


class Telemetry(Protocol):
    """Receives what a queue and its workers count, in batches. Implement it to send the counts elsewhere."""

    def produced(self, queue: str, count: int = 1) -> None:
        """Jobs submitted."""
        ...

    def claimed(self, queue: str, latencies_s: Sequence[float]) -> None:
        """Jobs claimed, each with the time from being ready to being claimed."""
        ...

    def settled(
        self, queue: str, state: str, count: int, durations_s: Sequence[float] = (), reason: str = "other"
    ) -> None:
        """Attempts that ended, or jobs that ended without one, in `state`; `reason` is the failure category."""
        ...

    def attempts_ended(self, job_type: str, outcome: str, durations_s: Sequence[float]) -> None:
        """Attempts of one type that ended; `outcome` is the reason of a failure, `completed` or `released`."""
        ...

    def retried(self, queue: str, count: int = 1) -> None:
        """Attempts that failed and are tried again."""
        ...

    def dead_lettered(self, queue: str, count: int = 1) -> None:
        """Jobs that had failed before, and were dead-lettered by an operator."""
        ...

    def reclaimed(self, count: int = 1) -> None:
        """Jobs taken back from lost workers."""
        ...

    def adopted(self, count: int = 1) -> None:
        """Jobs that were ready and in no line, which a sweep found."""
        ...

    def reaper_moved(self, count: int = 1) -> None:
        """Jobs that the reaper of Redis lists moved out of the processing lists of lost workers."""
        ...

    def housekept(self, chore: str, count: int) -> None:
        """Housekeeping removed rows of this kind."""
        ...

    def outbox_attempts(self, outcome: str, count: int = 1) -> None:
        """Webhook deliveries that ended in `outcome`, or were lost with their worker."""
        ...

    def outbox_dead_lettered(self, count: int = 1) -> None:
        """Webhook events that are given up."""
        ...

    def stale_write(self, count: int = 1) -> None:
        """Late writes that the fence refused."""
        ...

    def breaker_state(self, queue: str, code: int) -> None:
        """The worst circuit breaker of a queue is now closed (0), half open (1) or open (2)."""
        ...


class Span(Protocol):
    """One run of a job, as it is traced: around a block, or from its making to `end` where there is no block."""

    @property
    def log_keys(self) -> dict[str, str]:
        """`trace_id` and `span_id`, for log lines about the run that are written outside of it."""
        ...

    def set_outcome(self, outcome: str) -> None: ...

    def end(self, outcome: str) -> None: ...

    def __enter__(self) -> Span: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Trace = Callable[[Claim], Span]
"""Begins the span of a run; `observe.tracing` makes them."""
