"""Rates of keys: how many jobs of a key may start in a time.

A token is taken by the very claim that starts its job. A key has no more jobs in the line than there are tokens. When
tokens come, a sweep or an idle claim admits others, the most urgent first. Whoever changes a rate holds its key, and
then takes back what is in the line without a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from euterpe.model.claims.outcome import Settlement
from euterpe.model.rate import KeyRate, Rate
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.keys import LOOK_FAR, admit, hold_keys
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.rows import limit_key


def rate_waits_us(settlements: Sequence[Settlement], keys: Mapping[str, str]) -> dict[str, int]:
    """How long the rate of each key is to rest: a job that failed with retry_after delays all jobs of its key. `keys`
    are by job."""
    waits_us: dict[str, int] = {}
    for s in settlements:
        if s.hold_key_us and (name := keys.get(s.job_id)) is not None:
            waits_us[name] = max(s.hold_key_us, waits_us.get(name, 0))
    return waits_us


class SqlKeyRates:
    """Rates as operators and handlers see them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def set(self, key: str, rate: Rate, requester_id: str = LOCAL_REQUESTER) -> None:
        name = limit_key(requester_id, key)
        await self._engine.write(lambda: _set(name, rate))

    async def remove(self, key: str, requester_id: str = LOCAL_REQUESTER) -> bool:
        name = limit_key(requester_id, key)
        return await self._engine.write(lambda: _remove(name))

    async def list(self) -> list[KeyRate]:
        return await self._engine.read(_list)

    async def charge(self, key: str, tokens: int, requester_id: str = LOCAL_REQUESTER) -> None:
        name = limit_key(requester_id, key)
        await self._engine.write(lambda: _charge(name, tokens))


def _set(name: str, rate: Rate) -> Program[None]:
    yield from hold_keys({name: 0})
    kept = yield one("keep_rate", name=name, interval_us=rate.interval_us, burst=rate.burst)
    ((interval_us, burst, full_at, held_until, now),) = kept
    full_at = Rate(interval_us, burst).changed(rate, full_at, held_until, now)
    yield one("set_rate", name=name, interval_us=rate.interval_us, burst=rate.burst, full_at=full_at)
    yield from admit({name: 0}, look=LOOK_FAR)


def _charge(name: str, tokens: int) -> Program[None]:
    yield from hold_keys({name: 0})
    yield one("take_tokens", name=name, tokens=tokens)
    yield from admit({name: 0}, look=LOOK_FAR)


def _remove(name: str) -> Program[bool]:
    yield from hold_keys({name: 0})
    rows = yield one("remove_rate", name=name)
    yield from admit({name: 0})
    return bool(rows)


def _list() -> Program[list[KeyRate]]:
    rows = yield one("list_rates")
    found = []
    for name, interval_us, burst, full_at, now in rows:
        requester_id, _, key = name.partition("\x1f")
        rate = Rate(interval_us, burst)
        next_in_us = max(0, full_at - (burst - 1) * interval_us - now)
        found.append(KeyRate(key, requester_id, rate, rate.tokens(full_at, now), next_in_us))
    return found
