"""Periodic jobs: every worker watches the clock, and an idempotency key per tick lets only one of them submit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from euterpe.model.errors import EuterpeError, IdempotencyConflict, InvalidInput
from euterpe.queue.ports import SubmitsCalls

log = logging.getLogger("euterpe.cron")

LATE: Final = timedelta(minutes=1)
"""How late a tick may still be submitted: after a pause of the worker, or of the database."""
LONGEST_SLEEP_S: Final = 60.0
TRY_AGAIN_S: Final = 1.0
LONGEST_NAME: Final = 100

Now = Callable[[], datetime]
Sleep = Callable[[float], Awaitable[None]]


class Cron:
    """An expression (five fields, or six with seconds first), its time zone and the job it submits."""

    def __init__(
        self,
        expression: str,
        tz: str,
        jobtype: Any,
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.zone = zone_of(tz)
        self.tz = tz
        try:
            CronSim(expression, datetime(2026, 1, 1, tzinfo=self.zone))
        except (CronSimError, AttributeError, TypeError) as error:
            raise InvalidInput("cron", f"{expression!r} is not a cron expression: {error}") from error
        if name is not None and not 0 < len(name) <= LONGEST_NAME:
            raise InvalidInput("name", f"a cron's name has 1 to {LONGEST_NAME} characters, not {len(name)}")
        self.expression = expression
        self.name = name
        self.jobtype = jobtype
        self.call = _without_arguments(jobtype)
        self.options = dict(options or {})

    def next_after(self, at: datetime) -> datetime:
        tick: datetime = next(CronSim(self.expression, at.astimezone(self.zone)))
        return tick.astimezone(UTC)

    @property
    def in_words(self) -> str:
        """When it runs, for people."""
        words: str = CronSim(self.expression, datetime(2026, 1, 1, tzinfo=self.zone)).explain()
        return words

    @property
    def identity(self) -> tuple[str, str]:
        """Two crons that share it would take each other's ticks: the key lets only the first submit."""
        words = [self.expression, self.tz]
        return self.jobtype.type, ":".join(words if self.name is None else [self.name, *words])

    def key(self, tick: datetime) -> str:
        return f"cron:{self.identity[1]}:{tick:%Y-%m-%dT%H:%M:%SZ}"


def zone_of(name: str) -> tzinfo:
    """UTC needs no data. Any other zone comes from the system, or from the package tzdata where the system has none."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError) as error:
        if isinstance(error, ZoneInfoNotFoundError) and not available_timezones():
            raise InvalidInput(
                "tz",
                f"{name!r} cannot be looked up: this system has no time zones; install them with: pip install tzdata",
            ) from error
        raise InvalidInput("tz", f"{name!r} is not a time zone") from error


def add_cron(crons: list[Cron], cron: Cron) -> None:
    if any(other.identity == cron.identity for other in crons):
        raise InvalidInput(
            "cron",
            f"{cron.jobtype.type} has {cron.expression!r} in {cron.tz} already, and only one of the two would be "
            "submitted at a tick; give each a name: queue.cron(..., name=...)",
        )
    crons.append(cron)


def _without_arguments(jobtype: Any) -> Any:
    try:
        return jobtype.with_args()
    except InvalidInput as error:
        raise InvalidInput("cron", f"{jobtype.type} runs without arguments, so each needs a default: {error}") from None


def wall_clock() -> datetime:
    return datetime.now(UTC)


async def keep_time(
    submitter: SubmitsCalls, crons: Sequence[Cron], *, now: Now = wall_clock, sleep: Sleep = asyncio.sleep
) -> None:
    """Submit every tick from now on. A worker that overslept submits the ticks of the last minute."""
    started = now()
    upcoming = [cron.next_after(started) for cron in crons]
    while True:
        wait_s = (min(upcoming) - now()).total_seconds()
        if wait_s > 0:
            await sleep(min(wait_s, LONGEST_SLEEP_S))
            continue
        for i, cron in enumerate(crons):
            while upcoming[i] <= now():
                if now() - upcoming[i] < LATE:
                    await _submit(submitter, cron, upcoming[i], now, sleep)
                    upcoming[i] = cron.next_after(upcoming[i])
                else:
                    upcoming[i] = cron.next_after(now() - LATE)


async def _submit(submitter: SubmitsCalls, cron: Cron, tick: datetime, now: Now, sleep: Sleep) -> None:
    tags = {**(cron.options.get("tags") or {}), "cron": cron.expression}
    options = {**cron.options, "idempotency_key": cron.key(tick), "tags": tags}
    while True:
        try:
            await submitter.submit_call(cron.call, None, options)
            return
        except IdempotencyConflict:
            return  # A worker of another version, with other options, was first.
        except EuterpeError as error:
            if now() - tick >= LATE:
                log.error(
                    "a cron tick was not submitted",
                    extra={"type": cron.jobtype.type, "error_code": type(error).__name__},
                )
                return
            await sleep(TRY_AGAIN_S)
