"""How fast jobs of a key may start, as a developer says it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from euterpe.model.rate import parse_rate
from euterpe.model.submitting.submission import LOCAL_REQUESTER, check_limit_key
from euterpe.queue.core import QueueCore


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRate:
    """The rate of a key: a start every `interval`, `burst` at once after a quiet while; `tokens` may start now."""

    key: str
    requester: str
    interval: timedelta
    burst: int
    tokens: int


class Rates:
    """The rates of a queue's database. A job belongs to one by its `concurrency_key`. Rates are data, and may be
    changed while workers run.

    Example:
        @queue.job("charge", concurrency_key="stripe")
        async def charge(order: int) -> None: ...

        await queue.rates.set("stripe", "100/s", burst=20)
    """

    def __init__(self, core: QueueCore) -> None:
        self._core = core

    async def set(self, key: str, rate: str, *, burst: int = 1, requester: str = LOCAL_REQUESTER) -> None:
        """No more jobs of this key start than that, over all workers. `rate`: `10/s`, `100/m`, `5000/h`, `1/15s`.
        `burst`: how many may start at once after a quiet while. Raises InvalidInput for a rate that cannot be.

        Example:
            await queue.rates.set("stripe", "100/m")
        """
        check_limit_key(key)
        await self._core.store.rates.set(key, parse_rate(rate, burst), requester)

    async def remove(self, key: str, *, requester: str = LOCAL_REQUESTER) -> bool:
        """The key has no rate any more; what waits for it goes on within seconds. False: there was none.

        Example:
            await queue.rates.remove("stripe")
        """
        return await self._core.store.rates.remove(key, requester)

    async def list(self) -> list[StartRate]:
        """All rates of this database.

        Example:
            for limit in await queue.rates.list():
                print(limit.key, limit.tokens)
        """
        return [
            StartRate(
                key=found.key,
                requester=found.requester_id,
                interval=timedelta(microseconds=found.rate.interval_us),
                burst=found.rate.burst,
                tokens=found.tokens,
            )
            for found in await self._core.store.rates.list()
        ]
