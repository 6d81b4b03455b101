"""Driving a series of calls over a connection, so that a cancel finds its end and never a half."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from euterpe.stores.sql.caller.calls import Calls, DriverCall
from euterpe.stores.sql.program import Row

T = TypeVar("T")


class Interruption:
    """That the caller was cancelled while a visit went on. The visit hears of it before its next statement."""

    def __init__(self) -> None:
        self.cancelled: asyncio.CancelledError | None = None


def drive_sync(
    calls: Calls[T], fetch: Callable[[DriverCall], list[Row]], interruption: Interruption | None = None
) -> T:
    """Whatever a call raises, the series decides what it means, and raises it again."""
    try:
        call = next(calls)
        while True:
            try:
                if interruption is not None and interruption.cancelled is not None and not call.whole:
                    raise interruption.cancelled
                rows = fetch(call)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # a KeyboardInterrupt must not leave a half either
                call = calls.throw(error)
            else:
                call = calls.send(rows)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


async def drive(calls: Calls[T], fetch: Callable[[DriverCall], Awaitable[list[Row]]]) -> T:
    """The same for coroutines. A statement that a cancel cuts off is ended by its driver."""
    interruption = Interruption()
    try:
        call = next(calls)
        while True:
            try:
                if call.whole:
                    rows = await _whole(fetch(call), interruption)
                elif interruption.cancelled is not None:
                    raise interruption.cancelled
                else:
                    rows = await fetch(call)
            except GeneratorExit:
                raise  # The loop is gone, and nothing can be awaited any more.
            except BaseException as error:  # noqa: BLE001  # likewise
                call = calls.throw(error)
            else:
                call = calls.send(rows)
    except StopIteration as stop:
        if interruption.cancelled is not None:
            raise interruption.cancelled from None
        answer: T = stop.value
        return answer
    except Exception as error:
        if interruption.cancelled is not None:
            raise interruption.cancelled from error
        raise


async def _whole(work: Awaitable[T], interruption: Interruption) -> T:
    """To its end, and its answer; a cancel on the way is noted."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancelled:
            interruption.cancelled = cancelled
    return task.result()


async def to_the_end(visit: asyncio.Future[T], interruption: Interruption, patience_s: float | None = None) -> T:
    """Cancelled or not, the caller gets the connection back only when the visit uses it no more. With `patience_s`,
    a cancelled visit is itself cancelled when a statement of it takes longer than that."""
    limit_s: float | None = None
    while not visit.done():
        try:
            _, unfinished = await asyncio.wait([visit], timeout=limit_s)
        except asyncio.CancelledError as cancelled:
            interruption.cancelled = cancelled
            limit_s = patience_s
        else:
            if unfinished:
                visit.cancel()
                limit_s = None
    if interruption.cancelled is not None:
        if not visit.cancelled():
            visit.exception()
        raise interruption.cancelled
    return visit.result()
