"""Signals on the event loop, also where the loop itself cannot take them (Windows)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType


@contextmanager
def on_signals(numbers: Sequence[signal.Signals], act: Callable[[], object]) -> Iterator[None]:
    """Run `act` on the running loop at each of these signals, while this lasts. Main thread only."""
    loop = asyncio.get_running_loop()
    with ExitStack() as undo:
        for number in numbers:
            try:
                loop.add_signal_handler(number, act)
            except NotImplementedError:
                _by_the_process(loop, number, act, undo)
            else:
                undo.callback(loop.remove_signal_handler, number)
        yield


def _by_the_process(
    loop: asyncio.AbstractEventLoop, number: signal.Signals, act: Callable[[], object], undo: ExitStack
) -> None:
    def tell(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    undo.callback(signal.signal, number, signal.signal(number, tell))
