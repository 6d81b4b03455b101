"""The circuits of a process: what keeps failing is left alone, and nothing else is.

A circuit is that of a job type in a queue: for one requester, for one place of a requester (a store, a host) where the
failure names it, or for everybody. One requester alone opens its own circuits only. It opens one for everybody only
while it is the application itself and no other requester was ever seen here.

Temporary failures, timeouts and failures of the system count. These do not: a permanent failure (the job is wrong, not
what it needs), a job that was cancelled or given back, a timeout that its submission made shorter than the type's own,
and trouble of the worker's own machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.claims.presence import BreakerState, TrippedBreaker
from euterpe.model.failures.circuit_breaker import (
    SLICES_PER_WINDOW,
    BreakerCode,
    BreakerPolicy,
    CircuitBreaker,
    Open,
    Permit,
)
from euterpe.model.failures.failure import OWN_TROUBLE, Category
from euterpe.model.job import JobRow, Lease
from euterpe.model.submitting.submission import EXECUTION_TIMEOUT_US, LOCAL_REQUESTER
from euterpe.worker.attempt import AttemptRun, HandlerInterruption

if TYPE_CHECKING:  # The window is loaded with the first failure.
    from euterpe.model.failures.result_window import ResultWindow
    from euterpe.worker.claiming.breaker import CircuitBreakers

log = logging.getLogger("euterpe.worker")

COUNTED: Final = frozenset({Category.TEMPORARY, Category.TIMEOUT, Category.SYSTEM})
OPENED = (
    "circuit breaker open: too many attempts failed, the jobs wait until a probe succeeds and are not charged. "
    "`euterpe failures list` shows the cause. The setting circuit_breaker changes this or turns it off"
)
_TRIPPED: Final = {BreakerCode.HALF_OPEN: BreakerState.HALF_OPEN, BreakerCode.OPEN: BreakerState.OPEN}


def monotonic_us() -> int:
    return time.monotonic_ns() // 1_000


class CircuitScope(NamedTuple):
    """What a circuit keeps from running. `requester` None: everybody's jobs of the type. `place` empty: every place."""

    queue: str
    type: str
    requester: str | None = None
    place: str = ""

    @property
    def for_all(self) -> bool:
        return self.requester is None


class Circuit:
    """One that is not closed. One event loop owns it; all workers of a process share it."""

    __slots__ = ("_circuits", "_permit", "breaker", "last_failed", "probe", "prober", "request", "scope")

    def __init__(self, scope: CircuitScope, circuits: SharedCircuits, requester: str) -> None:
        self.scope = scope
        self._circuits = circuits
        opened = Open(era=1, until_us=circuits.clock_us() + circuits.policy.cooldown_us)
        self.breaker = CircuitBreaker(circuits.policy, circuits.clock_us, opened)
        self._permit = Permit(0)
        self.last_failed = requester
        """The requester whose job failed last; the next probe is another's, if there is one."""
        self.prober: CircuitBreakers | None = None
        self.request: ClaimRequest | None = None
        """The claim that brings the probe."""
        self.probe: Lease | None = None

    @property
    def is_due(self) -> bool:
        """Whether a probe may go. One at a time, however long it takes."""
        return self.prober is None and self.breaker.retry_in_us <= 0

    def begin_probe(self, prober: CircuitBreakers, *, request: ClaimRequest | None = None, lease: Lease | None) -> None:
        if self.prober is None:
            permit = self.breaker.try_acquire()
            assert permit is not None
            self._permit, self.prober = permit, prober
            self._circuits.changed(self)
        self.request, self.probe = request, lease

    def end_probe(self, succeeded: bool | None, requester: str = "", pause_us: int = 0) -> None:
        """The probe is over. None: it told nothing of this circuit, and another may go."""
        self.prober = self.request = self.probe = None
        if succeeded is None:
            self.breaker.give_back(self._permit, pause_us)
            return
        self.breaker.record(self._permit, succeeded=int(succeeded), failed=int(not succeeded))
        if not succeeded:
            self.last_failed = requester
        self._circuits.changed(self)

    @property
    def presence(self) -> TrippedBreaker:
        scope = self.scope
        return TrippedBreaker(
            scope.queue,
            scope.type,
            _TRIPPED[self.breaker.code],
            self.breaker.retry_in_us,
            scope.requester,
            scope.place or None,
        )


class SharedCircuits:
    """What the workers of a process know together of job types that fail. A type has a window of results from its first
    failure until a window without one; types that never fail cost nothing."""

    def __init__(self, policy: BreakerPolicy, clock_us: Callable[[], int] = monotonic_us) -> None:
        self.policy = policy
        self.clock_us = clock_us
        self.tripped: dict[CircuitScope, Circuit] = {}
        """Those that are not closed."""
        self.changes = 0
        self.has_tenants = False
        """Whether jobs of another requester than the application itself were seen."""
        self._windows: dict[tuple[str, str], ResultWindow] = {}
        self._next_slide_us = 0
        self._counted_from_s: dict[tuple[str, str], float] = {}
        """Attempts that began before a circuit of their type closed belong to another era."""

    def is_counting(self) -> bool:
        """Whether successes matter: something failed within the window, or is left alone."""
        if self._windows and (now_us := self.clock_us()) >= self._next_slide_us:
            self._next_slide_us = now_us + self.policy.window_us // SLICES_PER_WINDOW
            for name, window in tuple(self._windows.items()):
                window.slide(now_us)
                if not window.failed:
                    del self._windows[name]
        return bool(self._windows or self.tripped)

    def saw(self, requester: str) -> None:
        """A circuit that the application opened for everybody becomes its own when another requester is there."""
        if self.has_tenants or requester == LOCAL_REQUESTER:
            return
        self.has_tenants = True
        for scope, circuit in tuple(self.tripped.items()):
            del self.tripped[scope]
            circuit.scope = scope._replace(requester=LOCAL_REQUESTER)
            self.tripped[circuit.scope] = circuit
        self.changes += 1

    def of(self, queue: str, job: JobRow, places: Collection[str]) -> list[Circuit]:
        """The circuits that keep this job from running, the widest first."""
        scopes = [
            CircuitScope(queue, job.type),
            CircuitScope(queue, job.type, job.requester_id),
            *(CircuitScope(queue, job.type, job.requester_id, place) for place in places),
        ]
        return [circuit for scope in scopes if (circuit := self.tripped.get(scope)) is not None]

    def record(self, queue: str, attempt: AttemptRun, places: Collection[str]) -> None:
        """How an attempt ended."""
        job = attempt.claim.job
        self.saw(job.requester_id)
        succeeded = verdict_of(attempt)
        failed_at = failed_place(attempt) if succeeded is False else ""
        for circuit in self.of(queue, job, places):
            if circuit.probe == attempt.claim.lease:
                tells = succeeded is not False or circuit.scope.place == failed_at
                circuit.end_probe(succeeded if tells else None, job.requester_id)
        if succeeded is not None and attempt.started >= self._counted_from_s.get((queue, job.type), 0.0):
            self._count(queue, job, succeeded, places if succeeded else (failed_at,))

    def _count(self, queue: str, job: JobRow, succeeded: bool, places: Collection[str]) -> None:
        from euterpe.model.failures.result_window import ResultKey, ResultWindow

        window = self._windows.get((queue, job.type))
        now_us, requester = self.clock_us(), job.requester_id
        if succeeded:
            if window is not None:
                window.add(now_us, ResultKey(requester), 1, 0)
                for key in (ResultKey(requester, place) for place in places):
                    if window.has(key):
                        window.add(now_us, key, 1, 0)
            return
        if window is None:
            window = self._windows[queue, job.type] = ResultWindow(self.policy)
        (place,) = places
        key = ResultKey(requester, place)
        window.add(now_us, key, 0, 1)
        if window.is_over(key):
            is_alone = not self.has_tenants and not place
            self._open(CircuitScope(queue, job.type, None if is_alone else requester, place), requester)
        if not place and window.is_over_for_all():
            self._open(CircuitScope(queue, job.type), requester)

    def _open(self, scope: CircuitScope, requester: str) -> None:
        if scope not in self.tripped:
            self.tripped[scope] = Circuit(scope, self, requester)
            self.changed(self.tripped[scope])

    def changed(self, circuit: Circuit) -> None:
        """Note a change of state, and log it."""
        self.changes += 1
        scope = circuit.scope
        queue, job_type, requester, place = scope
        keys = {"queue": queue, "type": job_type, "requester_id": requester, "host": place or None}
        match circuit.breaker.code:
            case BreakerCode.CLOSED:
                self._close(scope)
                log.info("circuit breaker closed: the probe succeeded, the jobs run again", extra=keys)
            case BreakerCode.HALF_OPEN:
                log.info("circuit breaker half open: one job is tried, the probe", extra=keys)
            case BreakerCode.OPEN:
                log.warning(OPENED, extra={**keys, "delay_ms": circuit.breaker.retry_in_us // 1_000})

    def _close(self, scope: CircuitScope) -> None:
        from euterpe.model.failures.result_window import ResultKey

        del self.tripped[scope]
        name = (scope.queue, scope.type)
        self._counted_from_s[name] = time.monotonic()
        if scope.requester is None:
            self._windows.pop(name, None)
        elif (window := self._windows.get(name)) is not None:
            window.forget(ResultKey(scope.requester, scope.place))


def verdict_of(attempt: AttemptRun) -> bool | None:
    """Whether what the job needs was there; None: its end does not tell."""
    outcome = attempt.outcome
    if type(outcome) is Success:
        return True
    if type(outcome) is not Failed:
        return None
    failure = outcome.failure
    if failure.category not in COUNTED or failure.unfit or failure.code.startswith(OWN_TROUBLE):
        return None
    own_us = attempt.handler.timeout_us or EXECUTION_TIMEOUT_US
    is_cut_short = (
        attempt.interruption is HandlerInterruption.TIMEOUT and attempt.claim.job.execution_timeout_us < own_us
    )
    return None if is_cut_short else False


def failed_place(attempt: AttemptRun) -> str:
    return (attempt.outcome.failure.place or "") if type(attempt.outcome) is Failed else ""
