"""Watches a folder for changes, where the operating system can tell and `watchfiles` is installed.

It is only a hint where to look: the periodic scan finds what no hint came for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from euterpe.runtime.wait import happens_within

log: Final = logging.getLogger("euterpe.producer")
GATHER_MS: Final = 200
"""Changes that come within this time are told together."""
RETRY_PAUSE_S: Final = (0.5, 300.0)
"""The first pause and the longest before a watch that failed is tried again. To set it up reads the whole tree, and
nothing else of this process runs meanwhile: 90 us a folder. So the pauses grow for as long as the process lives."""
Hint = tuple[str, bool]
"""A folder to look at, and whether what is below it may be new too."""


async def watch(root: Path, changed: Callable[[set[Hint]], None], stop: asyncio.Event) -> None:
    """Tell the folders of the tree in which something changed, until stopped. Links are followed by who tells it, so a
    folder may lie behind one. Where a watch cannot be had that is said once, and tried again now and then."""
    try:
        from watchfiles import awatch
    except ImportError:
        log.info("watchfiles is not installed: new files are found by the periodic scan alone")
        return
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # It says how many changes came, up to 20 times a second.
    pause_s, longest_s = RETRY_PAUSE_S
    is_told = False
    while not stop.is_set():
        try:
            async for changes in awatch(
                root,
                watch_filter=None,
                debounce=GATHER_MS,
                step=20,
                stop_event=stop,
                ignore_permission_denied=True,
            ):
                changed({hint for _, path in changes for hint in _hints_of(root, Path(path))})
        except Exception as error:  # noqa: BLE001  # too many folders for the kernel, or a name that is no UTF-8
            if not is_told:
                log.warning(
                    "the folder cannot be watched: until that works again, new files are found by the periodic scan",
                    extra={"error_code": type(error).__name__},
                )
            is_told = True
            await happens_within(pause_s, stop)
            pause_s = min(2 * pause_s, longest_s)


def _hints_of(root: Path, path: Path) -> list[Hint]:
    """The folder that the path is in, and the path itself where it is a folder, which may have come in whole."""
    found = []
    for folder, is_deep in ((path.parent, False), (path, True)):
        if folder.is_relative_to(root) and folder.is_dir() and not folder.is_symlink():
            relative = folder.relative_to(root).as_posix()
            found.append(("", False) if relative == "." else (relative, is_deep))
    return found
