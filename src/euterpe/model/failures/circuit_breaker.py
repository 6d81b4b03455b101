"""A circuit breaker: after too many failures, stop calling for a while, then try with one call.

    Closed ──failure rate >= threshold──▶ Open ──cooldown over──▶ HalfOpen ──the probe succeeds──▶ Closed
                                            ▲                        │
                                            └────the probe fails─────┘

The three states are values and `admit` / `observe` are pure functions over them; `CircuitBreaker` only keeps
the current value and asks the clock. One thread (an event loop) owns a breaker: it has no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from euterpe.model.errors import InvalidInput

SLICES_PER_WINDOW: Final = 20
"""The window slides in steps of a twentieth, so memory stays flat however many results come in."""


class BreakerCode(IntEnum):
    """The values of the metric `circuit_breaker_state`."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class BreakerPolicy(msgspec.Struct, frozen=True):
    """The four keys of `circuit_breaker:` in the configuration."""

    failure_threshold: float = 0.5
    window_us: int = 60_000_000
    cooldown_us: int = 30_000_000
    min_samples: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.failure_threshold <= 1:
            raise InvalidInput("failure_threshold", f"{self.failure_threshold!r} is not in (0, 1]")
        for name in ("window_us", "cooldown_us", "min_samples"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, f"{getattr(self, name)!r} is not 1 or more")

    def is_over(self, succeeded: int, failed: int, min_samples: int | None = None) -> bool:
        """Whether so many results of a window open a circuit."""
        total = succeeded + failed
        return total >= (min_samples or self.min_samples) and failed >= self.failure_threshold * total


class Slice(NamedTuple):
    """Results that came in during one twentieth of the window."""

    number: int
    succeeded: int
    failed: int


class Closed(msgspec.Struct, frozen=True):
    """Calls go through; their results are counted."""

    era: int
    slices: tuple[Slice, ...] = ()


class Open(msgspec.Struct, frozen=True):
    """No call goes through before `until_us`."""

    era: int
    until_us: int


class HalfOpen(msgspec.Struct, frozen=True):
    """One call, the probe, is on its way. If it never reports, another may go at `probe_lost_at_us`."""

    era: int
    probe_lost_at_us: int


BreakerState = Closed | Open | HalfOpen


class Permit(msgspec.Struct, frozen=True):
    """Leave to make one call. It remembers the era it was given in, so that a result which comes back after
    the breaker has moved on (a slow call from before it opened) cannot be taken for the probe's."""

    era: int


def admit(state: BreakerState, policy: BreakerPolicy, now_us: int) -> tuple[BreakerState, Permit | None]:
    """May a call be made now? Eras grow by one with every change of state."""
    match state:
        case Closed():
            return state, Permit(state.era)
        case Open(until_us=barred_until_us) | HalfOpen(probe_lost_at_us=barred_until_us):
            if now_us < barred_until_us:
                return state, None
            probing = HalfOpen(state.era + 1, probe_lost_at_us=now_us + policy.cooldown_us)
            return probing, Permit(probing.era)


def observe(
    state: BreakerState, policy: BreakerPolicy, now_us: int, permit: Permit, succeeded: int, failed: int
) -> BreakerState:
    """The state after the results of calls made under `permit`."""
    if permit.era != state.era or succeeded + failed == 0:
        return state
    match state:
        case Closed():
            return _count(state, policy, now_us, succeeded, failed)
        case HalfOpen():
            return _opened(state, policy, now_us) if failed else Closed(state.era + 1)
        case Open():
            return state


def _count(state: Closed, policy: BreakerPolicy, now_us: int, succeeded: int, failed: int) -> Closed | Open:
    current = now_us * SLICES_PER_WINDOW // policy.window_us
    kept = [piece for piece in state.slices if piece.number > current - SLICES_PER_WINDOW]
    if kept and kept[-1].number >= current:
        newest = kept.pop()
        kept.append(Slice(newest.number, newest.succeeded + succeeded, newest.failed + failed))
    else:
        kept.append(Slice(current, succeeded, failed))
    failures = sum(piece.failed for piece in kept)
    if policy.is_over(sum(piece.succeeded for piece in kept), failures):
        return _opened(state, policy, now_us)
    return Closed(state.era, tuple(kept))


def _opened(state: BreakerState, policy: BreakerPolicy, now_us: int) -> Open:
    return Open(state.era + 1, until_us=now_us + policy.cooldown_us)


def withdraw(state: BreakerState, now_us: int, permit: Permit, pause_us: int = 0) -> BreakerState:
    """The state after a probe that told nothing: another may go when the pause is over."""
    if permit.era != state.era or not isinstance(state, HalfOpen):
        return state
    return HalfOpen(state.era, probe_lost_at_us=now_us + pause_us)


def code_of(state: BreakerState) -> BreakerCode:
    match state:
        case Closed():
            return BreakerCode.CLOSED
        case HalfOpen():
            return BreakerCode.HALF_OPEN
        case Open():
            return BreakerCode.OPEN


class CircuitBreaker(msgspec.Struct):
    """The current state, and the clock that it is judged by (microseconds that never go back)."""

    policy: BreakerPolicy
    clock_us: Callable[[], int]
    state: BreakerState = Closed(era=0)

    def try_acquire(self) -> Permit | None:
        """A permit to call, or None: then wait, `retry_in_us` says how long."""
        self.state, permit = admit(self.state, self.policy, self.clock_us())
        return permit

    def record(self, permit: Permit, *, succeeded: int = 0, failed: int = 0) -> None:
        """Report how the calls made under a permit went (one permit may cover a batch)."""
        self.state = observe(self.state, self.policy, self.clock_us(), permit, succeeded, failed)

    def give_back(self, permit: Permit, pause_us: int = 0) -> None:
        """The call was not made, or its result says nothing: another probe may go after the pause."""
        self.state = withdraw(self.state, self.clock_us(), permit, pause_us)

    @property
    def code(self) -> BreakerCode:
        return code_of(self.state)

    @property
    def retry_in_us(self) -> int:
        """How long until `try_acquire` may give a permit; 0 when it would now."""
        match self.state:
            case Closed():
                return 0
            case Open(until_us=barred_until_us) | HalfOpen(probe_lost_at_us=barred_until_us):
                return max(0, barred_until_us - self.clock_us())
