"""How a developer says when jobs that keep failing are left alone: `queue.work(circuit_breaker=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from euterpe.model.duration import DurationLike, parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.circuit_breaker import BreakerPolicy


class CircuitBreakerOptions(TypedDict, total=False):
    """Options of the circuit breaker. The section `circuit_breaker:` of the configuration has the same keys and
    defaults.

    `failure_threshold`: a job type is left alone at this share of failed attempts (0.5). `window`: only
    attempts of this time count (`"60s"`). `min_samples`: with fewer attempts in the window, the worker goes on
    (20). `cooldown_period`: how long the worker waits before it tries one job (`"30s"`).

    Example:
        await queue.work(circuit_breaker={"failure_threshold": 0.8, "cooldown_period": "10s"})
    """

    failure_threshold: float
    window: DurationLike
    cooldown_period: DurationLike
    min_samples: int


def breaker_policy_of(option: object) -> BreakerPolicy | None:
    """True: the defaults; False: no breaker. InvalidInput names the wrong key."""
    if option is True:
        return BreakerPolicy()
    if option is False:
        return None
    if not isinstance(option, Mapping):
        raise InvalidInput("circuit_breaker", f"{option!r} is not True, False or a dict of its settings")
    if unknown := sorted(set(option) - set(CircuitBreakerOptions.__annotations__), key=str):
        raise InvalidInput(
            "circuit_breaker",
            f"{unknown[0]!r} is not one of its settings: {', '.join(CircuitBreakerOptions.__annotations__)}",
        )
    threshold, samples = option.get("failure_threshold", 0.5), option.get("min_samples", 20)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise InvalidInput("circuit_breaker.failure_threshold", f"{threshold!r} is not a number above 0 and at most 1")
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise InvalidInput("circuit_breaker.min_samples", f"{samples!r} is not a whole number of 1 or more")
    return BreakerPolicy(
        float(threshold), _duration_us(option, "window", "60s"), _duration_us(option, "cooldown_period", "30s"), samples
    )


def _duration_us(option: Mapping[Any, Any], key: str, default: str) -> int:
    duration_us = parse_duration_us(option.get(key, default), f"circuit_breaker.{key}")
    if duration_us < 1_000:
        raise InvalidInput(f"circuit_breaker.{key}", "must be at least 1ms")
    return duration_us
