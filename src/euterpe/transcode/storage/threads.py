"""Blocking file work beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar


class Digest(Protocol):
    """What hashlib makes; its own type has no public name."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(act: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, but a caller that is cancelled waits for the thread: the descriptors that it works on
    must not be closed, and taken by another file, under its hands."""
    work = asyncio.ensure_future(asyncio.to_thread(act, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # taken here, so that nobody complains that nobody took it
        raise cancelled
    return work.result()
