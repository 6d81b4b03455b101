"""A rate limit in the database: every process that names it shares it, by the database's clock."""

from __future__ import annotations

from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one


class SqlRateLimit:
    """`per_s` a second under this name. Reservations follow each other without a gap and without a burst."""

    def __init__(self, engine: Engine, name: str, per_s: float) -> None:
        self._engine = engine
        self._name = name
        self._each_us = 1_000_000 / per_s

    async def take(self, count: int) -> float:
        wait_us = await self._engine.write_one(lambda: _take(self._name, self._cost_us(count)))
        return max(0, wait_us) / 1_000_000

    async def give_back(self, count: int) -> None:
        if count:
            await self._engine.write_one(lambda: _give_back(self._name, self._cost_us(count)))

    def _cost_us(self, count: int) -> int:
        return round(count * self._each_us)


def _take(name: str, cost_us: int) -> Program[int]:
    ((wait_us,),) = yield one("take_rate", name=name, cost_us=cost_us)
    return int(wait_us)


def _give_back(name: str, cost_us: int) -> Program[None]:
    yield one("give_back_rate", name=name, cost_us=cost_us)
