"""Periodic jobs: a cron expression, its time zone and the job it submits."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from euterpe.model.cron import CronRow, MissedTicks
from euterpe.model.errors import InvalidInput

if TYPE_CHECKING:
    from euterpe.queue.definition.job_type import Call, JobType

LONGEST_NAME: Final = 100


class Cron:
    """An expression (five fields, or six with seconds first), its time zone and the job it submits."""

    def __init__(
        self,
        expression: str,
        tz: str,
        jobtype: JobType[..., Any],
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
        missed: str = MissedTicks.SKIP,
    ) -> None:
        self.zone = check_times(expression, tz)
        self.tz = tz
        try:
            self.missed = MissedTicks(missed)
        except ValueError:
            raise InvalidInput("missed", f"{missed!r} is not one of {', '.join(MissedTicks)}") from None
        if name is not None and not 0 < len(name) <= LONGEST_NAME:
            raise InvalidInput("name", f"a cron's name has 1 to {LONGEST_NAME} characters, not {len(name)}")
        self.expression = expression
        self.name = name
        self.jobtype = jobtype
        self.call = _without_arguments(jobtype)
        self.options = dict(options or {})

    def next_after(self, at: datetime) -> datetime:
        return tick_after(self.expression, self.tz, at)

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

    @property
    def full_name(self) -> str:
        """What operators call it."""
        if self.name is not None:
            return f"{self.jobtype.type}:{self.name}"
        zone = "" if self.tz == "UTC" else f" {self.tz}"
        return f"{self.jobtype.type} {self.expression}{zone}"

    def key(self, tick: datetime) -> str:
        return f"cron:{self.identity[1]}:{tick:%Y-%m-%dT%H:%M:%SZ}"

    def as_declared(self) -> CronRow:
        return CronRow(
            name=self.full_name,
            type=self.jobtype.type,
            expression=self.expression,
            tz=self.tz,
            declared_expression=self.expression,
            declared_tz=self.tz,
            missed=self.missed,
        )


def check_times(expression: str, tz: str) -> tzinfo:
    """The zone; InvalidInput where it, or the expression, cannot be."""
    zone = zone_of(tz)
    try:
        CronSim(expression, datetime(2026, 1, 1, tzinfo=zone))
    except (CronSimError, AttributeError, TypeError) as error:
        raise InvalidInput("cron", f"{expression!r} is not a cron expression: {error}") from error
    return zone


def tick_after(expression: str, tz: str, at: datetime) -> datetime:
    tick: datetime = next(CronSim(expression, at.astimezone(zone_of(tz))))
    return tick.astimezone(UTC)


def ticks_between(expression: str, tz: str, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The last ticks after the one time and up to the other, oldest first."""
    ticks: deque[datetime] = deque(maxlen=limit)
    for tick in CronSim(expression, after.astimezone(zone_of(tz))):
        if tick > until:
            break
        ticks.append(tick.astimezone(UTC))
    return list(ticks)


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


def _without_arguments(jobtype: JobType[..., Any]) -> Call[Any]:
    try:
        return jobtype.with_args()
    except InvalidInput as error:
        raise InvalidInput("cron", f"{jobtype.type} runs without arguments, so each needs a default: {error}") from None
