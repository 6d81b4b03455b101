"""The news of an attempt: whatever its write meets, who waits for it hears of it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from euterpe.model.claims.exchange import Advance
from euterpe.model.job import Claim
from euterpe.worker.reporting.progress import NewsLine

NEWS = Advance(cast(Claim, None), progress=10.0)


async def test_an_error_that_nobody_expected_is_raised_where_it_is_awaited_and_the_line_goes_on() -> None:
    errors: list[Exception] = [RuntimeError("from some driver"), KeyError("a bug")]

    async def write(_: Advance) -> None:
        if errors:
            raise errors.pop(0)

    line = NewsLine(write)
    async with asyncio.timeout(30):
        with pytest.raises(RuntimeError):
            await line.tell(NEWS)
        with pytest.raises(KeyError):
            await line.tell(NEWS)
        await line.tell(NEWS)
        await line.delivered()


async def test_news_that_is_dropped_while_it_is_written_keeps_nobody_waiting() -> None:
    writing = asyncio.Event()

    async def write(_: Advance) -> None:
        writing.set()
        await asyncio.Event().wait()

    line = NewsLine(write)
    told = line.tell(NEWS)
    await writing.wait()
    line.drop()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await told
