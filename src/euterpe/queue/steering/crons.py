"""Crons as data, as a developer or an operator steers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from euterpe.model.cron import CronRow
from euterpe.model.errors import InvalidInput
from euterpe.queue.definition.cron import Cron, check_times, tick_after, ticks_between
from euterpe.queue.definition.cron_clock import MOST_MISSED, tick_options
from euterpe.queue.handle import JobHandle
from euterpe.queue.submitting.submitter import Submitter


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJob:
    """A cron of this database. `edited` is true if an operator changed its expression. `next_tick` is None while it is
    paused."""

    name: str
    type: str
    expression: str
    tz: str
    missed: str
    paused: bool
    edited: bool
    last_tick: datetime | None
    next_tick: datetime | None


class Crons:
    """The crons of a queue's database. A worker declares its crons when it starts, and sees changes within ten seconds.

    Example:
        for cron in await queue.crons.list():
            print(cron.name, cron.next_tick)
    """

    def __init__(self, submitter: Submitter) -> None:
        self._submitter = submitter
        self._core = submitter.core

    async def list(self) -> list[CronJob]:
        """Return all crons that workers of this database have declared.

        Example:
            crons = await queue.crons.list()
        """
        return [cron_job(row, datetime.now(UTC)) for row in await self._core.store.crons.list()]

    async def pause(self, name: str) -> None:
        """Stop submitting this cron. `name` is the name that `list` shows, or the name of a job type that has
        only one cron. Raises InvalidInput if there is no such cron.

        Example:
            await queue.crons.pause("report.render")
        """
        await self._core.store.crons.pause(await self._found(name))

    async def resume(self, name: str) -> None:
        """Submit the cron again from now on. Ticks during the pause are left out. Raises InvalidInput if there is no
        such cron.

        Example:
            await queue.crons.resume("report.render")
        """
        await self._core.store.crons.resume(await self._found(name))

    async def edit(self, name: str, expression: str, *, tz: str | None = None) -> None:
        """Change the expression of a cron, until its code changes. Raises InvalidInput for a wrong expression, and if
        there is no such cron.

        Example:
            await queue.crons.edit("report.render:nightly", "0 4 * * *")
        """
        store = self._core.store.crons
        check_times(expression, tz or "UTC")
        row = cron_named(await store.list(), name)
        await store.edit(row.name, expression, tz or row.tz)

    async def forget(self, name: str) -> None:
        """Delete a cron that no code declares any more. Raises InvalidInput if there is no such cron.

        Example:
            await queue.crons.forget("report.render:old")
        """
        await self._core.store.crons.forget(await self._found(name))

    async def run(
        self, name: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[JobHandle[Any]]:
        """Submit the cron now. With `since`, submit every tick from then until `until` (now) instead. A tick that was
        submitted before is not submitted again, as long as its idempotency key is kept. Raises InvalidInput if this
        queue object does not declare the cron, and for more than a thousand ticks.

        Example:
            await queue.crons.run("report.render:nightly", since=datetime(2026, 11, 1, tzinfo=UTC))
        """
        cron = self._declared(name)
        now = datetime.now(UTC)
        if since is None:
            return [await self._submit(cron, f"cron:{cron.identity[1]}:by-hand:{now.isoformat()}")]
        rows = await self._core.store.crons.list()
        row = next((row for row in rows if row.name == cron.full_name), cron.as_declared())
        ticks = ticks_between(row.expression, row.tz, since, until or now, MOST_MISSED + 1)
        if len(ticks) > MOST_MISSED:
            raise InvalidInput("since", f"there are more than {MOST_MISSED} ticks since then; give an `until`")
        return [await self._submit(cron, cron.key(tick)) for tick in ticks]

    async def _submit(self, cron: Cron, key: str) -> JobHandle[Any]:
        return await self._submitter.submit_call(cron.call, None, tick_options(cron, key))

    async def _found(self, name: str) -> str:
        return cron_named(await self._core.store.crons.list(), name).name

    def _declared(self, name: str) -> Cron:
        for cron in self._core.crons:
            if cron.full_name == name:
                return cron
        of_type = [cron for cron in self._core.crons if cron.jobtype.type == name]
        if len(of_type) == 1:
            return of_type[0]
        known = ", ".join(repr(cron.full_name) for cron in self._core.crons) or "none"
        raise InvalidInput("name", f"this queue declares no cron {name!r}; it has {known}")


def cron_job(row: CronRow, now: datetime) -> CronJob:
    return CronJob(
        name=row.name,
        type=row.type,
        expression=row.expression,
        tz=row.tz,
        missed=row.missed,
        paused=row.paused,
        edited=(row.expression, row.tz) != (row.declared_expression, row.declared_tz),
        last_tick=None if row.last_tick is None else datetime.fromtimestamp(row.last_tick / 1e6, UTC),
        next_tick=None if row.paused else tick_after(row.expression, row.tz, now),
    )


def cron_named(rows: Sequence[CronRow], name: str) -> CronRow:
    """The cron of this name, or the only one of this job type."""
    if exact := [row for row in rows if row.name == name]:
        return exact[0]
    of_type = [row for row in rows if row.type == name]
    if len(of_type) > 1:
        names = ", ".join(repr(row.name) for row in of_type)
        raise InvalidInput("name", f"{name!r} has {len(of_type)} crons; name one of them: {names}")
    if not of_type:
        raise InvalidInput("name", f"there is no cron {name!r}; `euterpe cron list` shows their names")
    return of_type[0]
