"""How fast jobs of a key may start, as a developer says it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from euterpe.model.rate import parse_rate
from euterpe.model.submitting.submission import LOCAL_REQUESTER, check_limit_key
from euterpe.queue.core import QueueCore


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRate:
    """The rate of a key. One job starts every `interval`, and `burst` jobs at once after a pause. `tokens` may start
    now."""

    key: str
    requester: str
    interval: timedelta
    burst: int
    tokens: int


class Rates:
    """The rates of a queue's database. The `concurrency_key` of a job names its rate. You can change rates while
    workers run.

    Example:
        @queue.job("charge", concurrency_key="stripe")
        async def charge(order: int) -> None: ...

        await queue.rates.set("stripe", "100/s", burst=20)
    """

    def __init__(self, core: QueueCore) -> None:
        self._core = core

    async def set(self, key: str, rate: str, *, burst: int = 1, requester: str = LOCAL_REQUESTER) -> None:
        """Limit how fast jobs of this key start, over all workers. `rate`: such as `10/s`, `100/m`, `5000/h` or
        `1/15s`. `burst`: how many jobs may start at once after a pause. Raises InvalidInput for a wrong rate.

        Example:
            await queue.rates.set("stripe", "100/m")
        """
        check_limit_key(key)
        await self._core.store.rates.set(key, parse_rate(rate, burst), requester)

    async def remove(self, key: str, *, requester: str = LOCAL_REQUESTER) -> bool:
        """Remove the rate of this key. Jobs that wait for it start within seconds. Returns False if there was no rate.

        Example:
            await queue.rates.remove("stripe")
        """
        return await self._core.store.rates.remove(key, requester)

    async def list(self) -> list[StartRate]:
        """Return all rates of this database.

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
