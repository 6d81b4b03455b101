"""Crons as rows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from euterpe.model.cron import CronRow
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, Statement, one


class SqlCrons:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def declare(self, crons: Sequence[CronRow]) -> None:
        if crons:
            await self._engine.write(lambda: _declare(crons))

    async def list(self) -> list[CronRow]:
        return await self._engine.read(_list)

    async def pause(self, name: str) -> bool:
        return await self._engine.write(lambda: _found(one("pause_cron", name=name)))

    async def resume(self, name: str) -> bool:
        return await self._engine.write(lambda: _found(one("resume_cron", name=name)))

    async def edit(self, name: str, expression: str, tz: str) -> bool:
        return await self._engine.write(lambda: _found(one("edit_cron", name=name, expression=expression, tz=tz)))

    async def forget(self, name: str) -> bool:
        return await self._engine.write(lambda: _found(one("forget_cron", name=name)))

    async def ticked(self, name: str, tick: int) -> None:
        await self._engine.write(lambda: _found(one("cron_ticked", name=name, tick=tick)))


def _declare(crons: Sequence[CronRow]) -> Program[None]:
    for cron in sorted(crons, key=lambda cron: cron.name):
        yield one(
            "declare_cron", name=cron.name, type=cron.type, expression=cron.expression, tz=cron.tz, missed=cron.missed
        )


def _found(statement: Statement) -> Program[bool]:
    rows = yield statement
    return bool(rows)


def _list() -> Program[list[CronRow]]:
    rows = yield one("list_crons")
    return [
        msgspec.convert(dict(zip(CronRow.__struct_fields__, row, strict=True)), CronRow, strict=False) for row in rows
    ]
