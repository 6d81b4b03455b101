"""Periodic jobs: every worker watches the clock, and an idempotency key per tick lets only one of them submit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.queue.home import Home

log = logging.getLogger("euterpe.cron")


class Cron:
    """An expression, its time zone and the job type it submits."""

    def __init__(self, expression: str, tz: str, jobtype: Any) -> None:
        try:
            self.zone = ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise InvalidInput("tz", f"{tz!r} is not a time zone") from error
        try:
            CronSim(expression, datetime(2026, 1, 1, tzinfo=self.zone))
        except CronSimError as error:
            raise InvalidInput("cron", f"{expression!r}: {error}") from error
        self.expression = expression
        self.jobtype = jobtype

    def next_after(self, at: datetime) -> datetime:
        return next(CronSim(self.expression, at.astimezone(self.zone))).astimezone(UTC)

    def key(self, tick: datetime) -> str:
        return f"cron:{self.expression}:{self.zone.key}:{tick:%Y-%m-%dT%H:%M:%SZ}"


async def keep_time(queue: Home, crons: Sequence[Cron]) -> None:
    """Submit every tick from now on. A worker that overslept submits the ticks it missed in the last minute."""
    since = datetime.now(UTC)
    while True:
        ticks = sorted((cron.next_after(since), i) for i, cron in enumerate(crons))
        wait_s = (ticks[0][0] - datetime.now(UTC)).total_seconds()
        if wait_s > 0:
            await asyncio.sleep(min(wait_s, 60.0))
            if wait_s > 60.0:
                continue
        now = datetime.now(UTC)
        for tick, i in ticks:
            if tick <= now and now - tick < timedelta(minutes=1):
                await _submit(queue, crons[i], tick)
        since = min(now, ticks[0][0]) if now - ticks[0][0] < timedelta(minutes=1) else now


async def _submit(queue: Home, cron: Cron, tick: datetime) -> None:
    while True:
        try:
            call = cron.jobtype.with_args()
            await queue.submit_call(call, None, {"idempotency_key": cron.key(tick), "tags": {"cron": cron.expression}})
            return
        except EuterpeError as error:
            if datetime.now(UTC) - tick > timedelta(minutes=1):
                log.error("a cron tick was not submitted", extra={"type": cron.jobtype.type}, exc_info=error)
                return
            await asyncio.sleep(1)
