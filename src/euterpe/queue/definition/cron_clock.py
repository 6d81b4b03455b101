"""Keeping time: every worker watches the clock, and an idempotency key per tick lets only one of them submit.

Crons are rows, too: each worker declares its own, and looks now and then what operators made of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from euterpe.model.cron import CronRow, MissedTicks
from euterpe.model.errors import EuterpeError, IdempotencyConflict, InvalidInput, StoreUnavailable
from euterpe.ports import CronStore
from euterpe.queue.definition.cron import Cron, tick_after, ticks_between
from euterpe.queue.ports import SubmitsTicks

log = logging.getLogger("euterpe.cron")

LATE: Final = timedelta(minutes=1)
"""How late a tick may still be submitted: after a pause of the worker, or of the database."""
READ_INTERVAL: Final = timedelta(seconds=10)
"""How often a worker looks what operators made of its crons."""
LONGEST_SLEEP_S: Final = 60.0
TRY_AGAIN_S: Final = 1.0
MOST_MISSED: Final = 1000

Now = Callable[[], datetime]
Sleep = Callable[[float], Awaitable[None]]


def wall_clock() -> datetime:
    return datetime.now(UTC)


class CronTimes:
    """One cron in this worker: its times as they are in effect, and its next tick."""

    def __init__(self, cron: Cron, now: datetime) -> None:
        self.cron = cron
        self.expression, self.tz = cron.expression, cron.tz
        self.is_paused = False
        self.upcoming = self._next_after(now)

    def apply(self, row: CronRow, now: datetime) -> None:
        """What an operator said. A row that cannot be read changes nothing."""
        if self.is_paused and not row.paused:
            self.upcoming = self._next_after(now)  # The ticks of the pause are over.
        self.is_paused = row.paused
        if (row.expression, row.tz) == (self.expression, self.tz):
            return
        before = self.expression, self.tz
        self.expression, self.tz = row.expression, row.tz
        try:
            self.upcoming = self._next_after(now)
        except (InvalidInput, ValueError) as error:
            self.expression, self.tz = before
            log.error("a cron's stored times cannot be used", extra={"type": row.type}, exc_info=error)

    def take_due(self, now: datetime) -> list[datetime]:
        """The ticks to submit now, oldest first; what is over and is not made up for is left out."""
        if self.upcoming > now:
            return []
        missed = self.cron.missed
        after = self.upcoming - timedelta(seconds=1)
        if missed is MissedTicks.SKIP:
            after = max(after, now - LATE)
        ticks = ticks_between(self.expression, self.tz, after, now, MOST_MISSED)
        self.upcoming = self._next_after(now)
        fresh = [tick for tick in ticks if now - tick < LATE]
        if missed is MissedTicks.ONCE:
            return fresh or ticks[-1:]
        return fresh if missed is MissedTicks.SKIP else ticks

    def make_up_from(self, last_tick: datetime) -> None:
        """Nobody was up since then: those are due, in the way that the cron says."""
        if self.cron.missed is not MissedTicks.SKIP and not self.is_paused:
            self.upcoming = min(self.upcoming, self._next_after(last_tick))

    def _next_after(self, at: datetime) -> datetime:
        return tick_after(self.expression, self.tz, at)


async def keep_time(
    submitter: SubmitsTicks,
    crons: Sequence[Cron],
    *,
    store: CronStore | None = None,
    now: Now = wall_clock,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Submit every tick from now on, and the missed ones where a cron asks for that. `store` has the crons as rows."""
    times = [CronTimes(cron, now()) for cron in crons]
    read_at = now()
    declared = False
    is_read = store is None
    while True:
        if store is not None and now() >= read_at:
            read_at = now() + READ_INTERVAL
            with suppress(EuterpeError):  # The next look finds the database again.
                declared = await _read_settings(store, times, now(), declared=declared)
                is_read = True
        if not is_read:  # A cron may be paused, or have other times: nothing is submitted before that is known.
            read_at = now()
            await sleep(TRY_AGAIN_S)
            continue
        upcoming = [each.upcoming for each in times if not each.is_paused]
        wait_s = min([(tick - now()).total_seconds() for tick in upcoming], default=LONGEST_SLEEP_S)
        if wait_s > 0:
            until_read_s = LONGEST_SLEEP_S if store is None else (read_at - now()).total_seconds()
            await sleep(max(0.0, min(wait_s, until_read_s, LONGEST_SLEEP_S)))
            continue
        for each in times:
            for tick in [] if each.is_paused else each.take_due(now()):
                if await submit_tick(submitter, each.cron, tick, now, sleep) and store is not None:
                    with suppress(EuterpeError):
                        await store.ticked(each.cron.full_name, round(tick.timestamp() * 1e6))


async def _read_settings(store: CronStore, times: Sequence[CronTimes], now: datetime, *, declared: bool) -> bool:
    if not declared:
        await store.declare([each.cron.as_declared() for each in times])
    rows = {row.name: row for row in await store.list()}
    for each in times:
        row = rows.get(each.cron.full_name)
        if row is None:
            return False  # Somebody has forgotten it; it is declared again.
        each.apply(row, now)
        if not declared and row.last_tick is not None:
            each.make_up_from(datetime.fromtimestamp(row.last_tick / 1e6, UTC))
    return True


def tick_options(cron: Cron, key: str) -> dict[str, Any]:
    """The same from whoever submits a tick: the key makes one job of them only if the requests are equal."""
    tags: dict[str, Any] = {**(cron.options.get("tags") or {}), "cron": cron.expression}
    return {**cron.options, "idempotency_key": key, "tags": tags}


async def submit_tick(
    submitter: SubmitsTicks, cron: Cron, tick: datetime, now: Now = wall_clock, sleep: Sleep = asyncio.sleep
) -> bool:
    """Whether it is submitted, by us or by another worker. An outage is waited for, as every other cron has to; what is
    refused, by the store or by a user's middleware, is given up at once: the others must not wait for it."""
    options = tick_options(cron, cron.key(tick))
    begun = now()
    while True:
        try:
            await submitter.submit_call(cron.call, None, options)
            return True
        except IdempotencyConflict:
            return True  # A worker of another version, with other options, was first.
        except Exception as error:  # noqa: BLE001  # middleware may raise anything; the clock goes on
            if not isinstance(error, StoreUnavailable) or now() - max(tick, begun) >= LATE:
                _report_unsubmitted(cron, error)
                return False
            await sleep(TRY_AGAIN_S)


def _report_unsubmitted(cron: Cron, error: Exception) -> None:
    extra = {"type": cron.jobtype.type, "error_code": type(error).__name__}
    # Where an error of the user's own comes from, only its traceback tells.
    log.error("a cron tick was not submitted", extra=extra, exc_info=None if isinstance(error, EuterpeError) else error)
