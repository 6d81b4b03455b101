"""Rates of keys: who may start now, who is parked until there is a token, and who lets go of the parked ones.

A token is taken by the very claim that starts its job, under the lock of the key. What finds none is parked, uncharged
and out of the claim index; a sweep lets as many go as there are tokens, the most urgent first.
"""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.claims.outcome import Settlement
from euterpe.model.job import JobRow
from euterpe.model.rate import KeyRate, Rate
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, Row, each, one
from euterpe.stores.sql.rows import URGENCY, limit_key, limit_key_of


class RateAdmission:
    """Which of the jobs at hand are over their keys' rates, and how many parked ones may go instead."""

    def __init__(self) -> None:
        self.over: list[JobRow] = []
        self.released: dict[str, int] = {}


def admit(jobs: Sequence[JobRow], keys: Sequence[str]) -> Program[RateAdmission]:
    """Take tokens for these jobs, which were just claimed. A younger one does not pass an older that is parked."""
    admission = RateAdmission()
    rows = (yield one("rates_of", keys=sorted(keys))) if keys else []
    for name, interval_us, burst, full_at, now in rows:
        free = Rate(interval_us, burst).tokens(full_at, now)
        first = yield one("first_parked", limit_key=name)
        ahead = (first[0][0], first[0][1]) if first else None
        mine = [job for job in jobs if limit_key_of(job) == name]
        fit = [job for job in mine if ahead is None or URGENCY(job) < ahead][:free]
        admission.over += [job for job in mine if job not in fit]
        if fit:
            yield one("take_tokens", name=name, tokens=len(fit))
        if ahead is not None and free > len(fit):
            admission.released[name] = free - len(fit)
    return admission


def release(admission: RateAdmission) -> Program[bool]:
    """Let parked jobs go for the tokens that are left; whether any went."""
    if not admission.released:
        return False
    names = sorted(admission.released)
    freed = yield each("unpark", limit_key=names, limit=[admission.released[name] for name in names])
    return bool(freed)


def offer_tokens(due: Sequence[Row]) -> Program[list[str]]:
    """Let parked jobs go for tokens that came meanwhile; returns their queues, one entry a job."""
    yield one("lock_keys", keys=[row[0] for row in due])
    queues: list[str] = []
    for name, interval_us, burst, full_at, now, offered_at in due:
        mine = yield one("offer_rate", name=name, offered_at=offered_at, full_at=full_at)
        if mine:
            freed = yield each("unpark", limit_key=[name], limit=[Rate(interval_us, burst).tokens(full_at, now)])
            queues += [row[0] for row in freed]
    return queues


def due_rates() -> Program[list[Row]]:
    rows = yield one("due_rates")
    return rows


def hold_rates(settlements: Sequence[Settlement], keys: dict[str, str]) -> Program[None]:
    """Who was told to come back later holds its whole key up, if that has a rate. `keys` are by job."""
    waits = sorted((keys[s.job_id], s.hold_key_us) for s in settlements if s.hold_key_us and s.job_id in keys)
    if waits:
        yield each("hold_rate", name=[name for name, _ in waits], wait_us=[wait_us for _, wait_us in waits])


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
        await self._engine.write_one(lambda: _charge(name, tokens))


def _set(name: str, rate: Rate) -> Program[None]:
    kept = yield one("keep_rate", name=name, interval_us=rate.interval_us, burst=rate.burst)
    ((interval_us, burst, full_at, held_until, now),) = kept
    full_at = Rate(interval_us, burst).changed(rate, full_at, held_until, now)
    yield one("set_rate", name=name, interval_us=rate.interval_us, burst=rate.burst, full_at=full_at)


def _charge(name: str, tokens: int) -> Program[None]:
    yield one("take_tokens", name=name, tokens=tokens)


def _remove(name: str) -> Program[bool]:
    rows = yield one("remove_rate", name=name)
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
