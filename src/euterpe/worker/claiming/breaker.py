"""A circuit breaker for each queue: a queue whose jobs keep failing is not claimed for a while.

It stands before the claim, so its jobs stay where they are, in order and uncharged. After the cooldown one job is
claimed alone, the probe, and its end decides. Jobs that are under way when a circuit opens run on.

Temporary failures, timeouts and failures of the system count. A permanent failure says that the job is wrong and not
what it needs, and a job that was cancelled or given back says nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Failed, Outcome, Success
from euterpe.model.claims.presence import BreakerState, TrippedBreaker
from euterpe.model.failures.circuit_breaker import (
    SLICES_PER_WINDOW,
    BreakerCode,
    BreakerPolicy,
    CircuitBreaker,
    Permit,
    observe,
)
from euterpe.model.failures.failure import Category
from euterpe.model.job import Claim, Lease
from euterpe.model.submitting.submission import DEFAULT_QUEUE
from euterpe.ports import Telemetry
from euterpe.worker.attempt import AttemptRun

log = logging.getLogger("euterpe.worker")

COUNTED: Final = frozenset({Category.TEMPORARY, Category.TIMEOUT, Category.SYSTEM})
EMPTY_PAUSE_US: Final = 500_000
"""An empty queue gives no probe; it is asked again after this while."""
SHORTEST_WAIT_S: Final = 0.05
OPENED = (
    "circuit breaker open: too many attempts failed, the queue is not claimed until a probe succeeds. Its jobs wait "
    "and are not charged. `euterpe failures list` shows the cause. The setting circuit_breaker changes this or turns "
    "it off"
)


def monotonic_us() -> int:
    return time.monotonic_ns() // 1_000


class QueueCircuit:
    """The circuit of one queue, for all workers of a process. One event loop owns it."""

    __slots__ = (
        "_policy", "_shared", "_slice_us", "circuit", "closed_since_s", "counted_at_us", "is_closed", "next_slice_us",
        "permit", "probe", "prober", "queue", "request", "succeeded",
    )  # fmt: skip

    def __init__(self, queue: str, shared: SharedCircuits) -> None:
        self.queue = queue
        self._shared = shared
        self._policy = shared.policy
        self._slice_us = shared.policy.window_us // SLICES_PER_WINDOW
        self.circuit = CircuitBreaker(shared.policy, shared.clock_us)
        self.permit = Permit(self.circuit.state.era)
        self.is_closed = True
        self.closed_since_s = 0.0
        """Attempts that began earlier belong to another era."""
        self.succeeded = 0
        """Successes that are not in the window yet: they are written down once in a slice."""
        self.counted_at_us = self.next_slice_us = 0
        self.prober: QueueBreakers | None = None
        self.request: ClaimRequest | None = None
        self.probe: Lease | None = None

    @property
    def never_opened(self) -> bool:
        """Every attempt counts then, whenever it began."""
        return self.is_closed and not self.closed_since_s

    def write_down(self, now_us: int, failed: int = 0) -> None:
        """Put what was counted into the window, at the time that it came in."""
        circuit, succeeded, self.succeeded = self.circuit, self.succeeded, 0
        circuit.state = observe(circuit.state, self._policy, self.counted_at_us, self.permit, succeeded, 0)
        circuit.state = observe(circuit.state, self._policy, now_us, self.permit, 0, failed)
        self.counted_at_us, self.next_slice_us = now_us, now_us + self._slice_us
        self._notice_change()

    def ask_for_probe(self, prober: QueueBreakers) -> bool:
        """Whether the asker may claim one job of this queue to see how it goes. One probe at a time, in the process."""
        if self.is_closed or self.prober is not None:
            return False
        permit = self.circuit.try_acquire()
        if permit is None:
            return False
        self.permit, self.prober = permit, prober
        self._notice_change()
        return True

    def end_probe(self, outcome: Outcome | None, pause_us: int = 0) -> None:
        """The probe is over. None, or an outcome that tells nothing: another may go."""
        self.prober = self.request = self.probe = None
        if type(outcome) is Success:
            self.circuit.record(self.permit, succeeded=1)
        elif _counts_as_failed(outcome):
            self.circuit.record(self.permit, failed=1)
        else:
            self.circuit.give_back(self.permit, pause_us)
        self._notice_change()

    def _notice_change(self) -> None:
        """Notice a change of state, and say so."""
        code = self.circuit.code
        closed = code is BreakerCode.CLOSED
        if code is self._shared.codes[self.queue]:
            return
        self._shared.codes[self.queue] = code
        self._shared.changes += 1
        if closed is not self.is_closed:
            self.is_closed = closed
            self._shared.tripped += -1 if closed else 1
        keys = {"queue": self.queue}
        match code:
            case BreakerCode.CLOSED:
                self.permit = Permit(self.circuit.state.era)
                self.closed_since_s = time.monotonic()
                log.info("circuit breaker closed: the probe succeeded, the queue is claimed again", extra=keys)
            case BreakerCode.HALF_OPEN:
                log.info("circuit breaker half open: one job of the queue is tried, the probe", extra=keys)
            case BreakerCode.OPEN:
                log.warning(OPENED, extra={**keys, "delay_ms": self.circuit.retry_in_us // 1_000})


class SharedCircuits:
    """The circuits of a process: workers that run side by side on one queue see the same one."""

    def __init__(self, policy: BreakerPolicy, clock_us: Callable[[], int] = monotonic_us) -> None:
        self.policy = policy
        self.clock_us = clock_us
        self.tripped = 0
        """How many are not closed."""
        self.changes = 0
        self.codes: dict[str, BreakerCode] = {}
        self._by_queue: dict[str, QueueCircuit] = {}

    def of(self, queue: str) -> QueueCircuit:
        if queue not in self._by_queue:
            self.codes[queue] = BreakerCode.CLOSED
            self._by_queue[queue] = QueueCircuit(queue, self)
        return self._by_queue[queue]


class QueueBreakers:
    """What one worker asks before it claims, and tells after jobs have ended. With all circuits closed it costs a
    comparison a claim, and a counter a job."""

    def __init__(self, shared: SharedCircuits, queues: Sequence[str], telemetry: Telemetry) -> None:
        self._shared = shared
        self._telemetry = telemetry
        self._circuits = {queue: shared.of(queue) for queue in queues}
        self._only = next(iter(self._circuits.values())) if len(self._circuits) == 1 else None
        """The circuit of all jobs that come, where the worker has one queue."""
        self._default = self._circuits.get(DEFAULT_QUEUE)
        self._published: dict[str, BreakerCode] = {}
        self._seen = -1
        self._publish_states()

    def narrowed(self, request: ClaimRequest) -> ClaimRequest | None:
        """The request without the queues that must not be claimed; or for one probe; or None when nothing is left."""
        if self._seen != self._shared.changes:
            self._publish_states()
        if not self._shared.tripped:
            return request
        for queue, circuit in self._circuits.items():
            if request.limit and circuit.ask_for_probe(self):
                self._publish_states()
                circuit.request = msgspec.structs.replace(request, queues=(queue,), limit=1, prefetch=0)
                return circuit.request
        claimable = tuple(queue for queue in request.queues if self._circuits[queue].is_closed)
        return msgspec.structs.replace(request, queues=claimable) if claimable else None

    def is_probe(self, request: ClaimRequest) -> bool:
        return self._shared.tripped > 0 and self._circuits[request.queues[0]].request is request

    def claimed(self, request: ClaimRequest, claims: Sequence[Claim]) -> tuple[Sequence[Claim], Sequence[Claim]]:
        """What a claim brought: which may run, and which came too late, because their circuit opened meanwhile."""
        if not self._shared.tripped:
            return claims, ()
        if self.is_probe(request):
            circuit = self._circuits[request.queues[0]]
            if not claims:
                circuit.end_probe(None, EMPTY_PAUSE_US)
                return (), ()
            circuit.request, circuit.probe = None, claims[0].lease
            return claims[:1], claims[1:]
        closed = [claim for claim in claims if self.lets_through(claim.job.queue)]
        return closed, [claim for claim in claims if not self.lets_through(claim.job.queue)]

    def failed_to_claim(self, request: ClaimRequest) -> None:
        """The store did not answer: if this was for a probe, there is none."""
        if self.is_probe(request):
            self._circuits[request.queues[0]].end_probe(None)

    def record(self, ended: Sequence[AttemptRun]) -> None:
        """How attempts ended. Those that began before their circuit last closed are not counted."""
        now_us = self._shared.clock_us()
        only = self._only
        if only is not None and only.never_opened and [type(a.outcome) for a in ended].count(Success) == len(ended):
            if now_us >= only.next_slice_us:
                only.write_down(now_us)
            only.succeeded += len(ended)
        else:
            self._record_each(ended, now_us)
        if self._seen != self._shared.changes:
            self._publish_states()

    def _record_each(self, ended: Sequence[AttemptRun], now_us: int) -> None:
        for attempt in ended:
            circuit = self._circuit_of(attempt.claim.job.queue)
            if circuit is None:
                continue
            if not circuit.is_closed:
                self._end_if_probe(circuit, attempt)
            elif attempt.started < circuit.closed_since_s:
                continue
            elif type(attempt.outcome) is Success:
                if now_us >= circuit.next_slice_us:
                    circuit.write_down(now_us)
                circuit.succeeded += 1
            elif _counts_as_failed(attempt.outcome):
                circuit.write_down(now_us, failed=1)

    def lost(self, attempt: AttemptRun) -> None:
        """An attempt whose end nobody will write."""
        circuit = self._circuit_of(attempt.claim.job.queue)
        if circuit is not None and circuit.probe == attempt.claim.lease:
            circuit.end_probe(None)

    def wait_s(self, poll_s: float) -> float:
        """How long to sleep at most: no longer than until the next probe is due."""
        if not self._shared.tripped:
            return poll_s
        due = [c.circuit.retry_in_us / 1e6 for c in self._circuits.values() if not c.is_closed and c.prober is None]
        return min([poll_s, *(max(SHORTEST_WAIT_S, wait_s) for wait_s in due)])

    @property
    def changes(self) -> int:
        """Grows whenever one of them opens or closes."""
        return self._shared.changes

    def tripped(self) -> dict[str, TrippedBreaker]:
        """By queue, those that are not closed."""
        if not self._shared.tripped:
            return {}
        return {
            queue: TrippedBreaker(_TRIPPED[circuit.circuit.code], circuit.circuit.retry_in_us)
            for queue, circuit in self._circuits.items()
            if not circuit.is_closed
        }

    def close(self) -> None:
        """The worker ends: its probes are somebody else's to make."""
        for circuit in self._circuits.values():
            if circuit.prober is self:
                circuit.end_probe(None)

    def lets_through(self, queue: str) -> bool:
        circuit = self._circuit_of(queue)
        return circuit is None or circuit.is_closed

    def _circuit_of(self, queue: str) -> QueueCircuit | None:
        """A list of `worker.queues` is a queue of its own to its jobs, and is claimed as one of the default queue's."""
        return self._circuits.get(queue, self._default)

    def _end_if_probe(self, circuit: QueueCircuit, attempt: AttemptRun) -> None:
        if circuit.probe is not None and circuit.probe == attempt.claim.lease:
            circuit.end_probe(attempt.outcome)

    def _publish_states(self) -> None:
        self._seen = self._shared.changes
        for queue in self._circuits:
            code = self._shared.codes[queue]
            if self._published.get(queue) is not code:
                self._published[queue] = code
                self._telemetry.breaker_state(queue, code)


_TRIPPED: Final = {BreakerCode.HALF_OPEN: BreakerState.HALF_OPEN, BreakerCode.OPEN: BreakerState.OPEN}


def _counts_as_failed(outcome: Outcome | None) -> bool:
    """Arguments of another version say nothing of what the queue's jobs depend on."""
    return type(outcome) is Failed and outcome.failure.category in COUNTED and not outcome.failure.unfit
