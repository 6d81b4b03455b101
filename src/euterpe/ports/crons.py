"""Crons of a queue's workers, as rows that operators can read and change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.cron import CronRow


class CronStore(Protocol):
    """Every write names one cron; False: there is none of that name."""

    async def declare(self, crons: Sequence[CronRow]) -> None:
        """As the code has them. What an operator changed stays until the code says something else."""
        ...

    async def list(self) -> list[CronRow]:
        """All of them, by name."""
        ...

    async def pause(self, name: str) -> bool: ...

    async def resume(self, name: str) -> bool:
        """The ticks of the pause are not made up for."""
        ...

    async def edit(self, name: str, expression: str, tz: str) -> bool: ...

    async def forget(self, name: str) -> bool:
        """Of a cron that no code declares any more; a worker that does declares it again."""
        ...

    async def ticked(self, name: str, tick: int) -> None:
        """This tick was submitted."""
        ...
