"""Watches a folder for changes, where the operating system can tell and `watchfiles` is installed.

It is only a hint where to look: the periodic scan finds what no hint came for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

log: Final = logging.getLogger("euterpe.producer")
GATHER_MS: Final = 200
"""Changes that come within this time are told together."""
Hint = tuple[str, bool]
"""A folder to look at, and whether what is below it may be new too."""


async def watch(root: Path, changed: Callable[[set[Hint]], None], stop: asyncio.Event) -> None:
    """Tell the folders of the tree in which something changed, until stopped. Where that cannot be had it says so once
    and returns."""
    try:
        from watchfiles import awatch
    except ImportError:
        log.info("watchfiles is not installed: new files are found by the periodic scan alone")
        return
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
    except Exception as error:  # noqa: BLE001  # too many folders for the kernel, or a file system without events
        log.warning(
            "the folder cannot be watched: new files are found by the periodic scan alone",
            extra={"error_code": type(error).__name__},
        )


def _hints_of(root: Path, path: Path) -> list[Hint]:
    """The folder that the path is in, and the path itself where it is a folder, which may have come in whole."""
    found = []
    for folder, is_deep in ((path.parent, False), (path, True)):
        if folder.is_relative_to(root) and folder.is_dir() and not folder.is_symlink():
            relative = folder.relative_to(root).as_posix()
            found.append(("", False) if relative == "." else (relative, is_deep))
    return found
