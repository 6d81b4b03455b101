"""Backoffs as users write them: `"linear"`, a mapping, a Backoff, or a function of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from euterpe.model.duration import parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.backoff import Backoff, Strategy, register_custom_delay

_KNOWN: Final = ("initial", "jitter", "max", "multiplier", "strategy")


def parse_backoff(value: Any) -> Backoff:
    """`"linear"`, `{"strategy": "constant", "initial": "5s"}`, a Backoff, or a delay(n, initial_us, max_us)."""
    if value is None:
        return Backoff()
    if isinstance(value, Backoff):
        return value
    if callable(value):
        return _custom(value)
    if isinstance(value, str):
        return _from_mapping({"strategy": value})
    if isinstance(value, Mapping):
        return _from_mapping(value)
    raise InvalidInput("backoff", f"must be a strategy's name, a map, a Backoff or a function, not {value!r}")


def _custom(function: Any) -> Backoff:
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '<unnamed>')}"
    if "<" in name:
        # It is found by its name again, in whichever process settles the job.
        raise InvalidInput("backoff", f"{name} has no name to find it by; use a function at the top of a module")
    register_custom_delay(name, function)
    return Backoff(Strategy.CUSTOM, name=name)


def _from_mapping(options: Mapping[str, Any]) -> Backoff:
    if unknown := sorted(str(name) for name in options if name not in _KNOWN):
        raise InvalidInput(f"backoff.{unknown[0]}", f"is not known; use {', '.join(_KNOWN)}")
    fields: dict[str, Any] = {"strategy": _strategy(options.get("strategy", Strategy.EXPONENTIAL))}
    if "initial" in options:
        fields["initial_us"] = parse_duration_us(options["initial"], "backoff.initial")
        fields["max_us"] = max(Backoff().max_us, fields["initial_us"])
    if "max" in options:
        fields["max_us"] = parse_duration_us(options["max"], "backoff.max")
    for name in ("multiplier", "jitter"):
        if name in options:
            if isinstance(options[name], bool) or not isinstance(options[name], (int, float)):
                raise InvalidInput(f"backoff.{name}", f"must be a number, not {type(options[name]).__name__}")
            fields[name] = float(options[name])
    return Backoff(**fields)


def _strategy(value: Any) -> Strategy:
    try:
        strategy = Strategy(str(value).lower())
    except ValueError:
        raise InvalidInput("backoff.strategy", f"{value!r} is not constant, linear or exponential") from None
    if strategy is Strategy.CUSTOM:
        raise InvalidInput("backoff.strategy", "a custom backoff is given as a function")
    return strategy
