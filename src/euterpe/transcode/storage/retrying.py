"""Small retries of one request, so that a hiccup costs a part of a transfer and not the attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from euterpe.transcode.storage.errors import StorageError

A = TypeVar("A")
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
AT_ONCE: Final = 6
"""Requests to a store under way at the same time, for one attempt."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Full jitter. Retry-After is waited for up to `longest_s`; longer waits are the job's."""

    tries: int = 4
    first_s: float = 0.25
    longest_s: float = 10.0
    sleep: Sleep = asyncio.sleep
    rng: Random = field(default_factory=Random)

    async def run(self, act: Callable[[int], Awaitable[T]]) -> T:
        """`act` is told which try it is, from 0."""
        for number in range(self.tries):
            try:
                return await act(number)
            except StorageError as error:
                if not error.is_transient or number + 1 >= self.tries or self._is_too_long(error):
                    raise
                await self.pause(number, error)
        raise AssertionError("the last try returns or raises")

    async def pause(self, number: int, error: StorageError) -> None:
        wait_s = self.rng.uniform(0, min(self.longest_s, self.first_s * 2**number))
        await self.sleep(max(wait_s, (error.retry_after_us or 0) / 1e6))

    def _is_too_long(self, error: StorageError) -> bool:
        return (error.retry_after_us or 0) / 1e6 > self.longest_s


async def gathered(act: Callable[[A], Awaitable[T]], items: Iterable[A]) -> list[T]:
    """Do it for each, a few at a time, and return the results in order. The first error ends the others."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(item: A) -> T:
        async with gate:
            return await act(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
