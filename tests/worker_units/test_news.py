"""The news of an attempt: whatever its write meets, who waits for it hears of it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.job import Claim
from euterpe.worker.reporting.progress import ProgressWriter

NEWS = ProgressUpdate(cast(Claim, None), progress=10.0)


async def test_an_error_that_nobody_expected_is_raised_where_it_is_awaited_and_the_line_goes_on() -> None:
    errors: list[Exception] = [RuntimeError("from some driver"), KeyError("a bug")]

    async def write(_: ProgressUpdate) -> None:
        if errors:
            raise errors.pop(0)

    line = ProgressWriter(write)
    async with asyncio.timeout(30):
        with pytest.raises(RuntimeError):
            await line.report_progress(NEWS)
        with pytest.raises(KeyError):
            await line.report_progress(NEWS)
        await line.report_progress(NEWS)
        await line.delivered()


async def test_news_that_is_dropped_while_it_is_written_keeps_nobody_waiting() -> None:
    writing = asyncio.Event()

    async def write(_: ProgressUpdate) -> None:
        writing.set()
        await asyncio.Event().wait()

    line = ProgressWriter(write)
    told = line.report_progress(NEWS)
    await writing.wait()
    line.drop()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await told
