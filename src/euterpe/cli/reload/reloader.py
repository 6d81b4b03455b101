"""The parent of a command that is run again after each change. It never imports the app, so each run loads it afresh.

A run ends as any worker does. The first SIGTERM lets running jobs finish. After `PATIENCE_S` a second one gives back
what still runs, and no attempt is charged. The next run takes those jobs up again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from euterpe.cli.output import note
from euterpe.model.errors import EuterpeError
from euterpe.model.extras import needing

OPTION: Final = "--reload"
PATIENCE_S: Final = 3.0
"""Running jobs may finish for this long before they are given back."""
GATHER_MS: Final = 200
"""An editor that saves ten files at once causes one restart."""
IGNORED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Folders whose files are not the app's. So are all whose names begin with a dot."""


class CannotReload(EuterpeError):
    """`--reload` does not work here."""


def run_reloading(app: str) -> int:
    """This very command without `--reload`, again and again, until told to stop; the exit code."""
    if os.name != "posix":
        raise CannotReload("--reload needs a system with POSIX signals; restart the worker by hand")
    with needing("--reload", "reload"):
        import watchfiles  # noqa: F401
    arguments = [each for each in sys.argv[1:] if each != OPTION]
    return asyncio.run(Reloader(arguments, folders_of(app)).run())


def folders_of(app: str) -> list[Path]:
    """The current folder, and the one that holds the app's package where that is elsewhere and not installed."""
    here = Path.cwd()
    sys.path.insert(0, str(here))
    with suppress(ImportError, ValueError):
        spec = find_spec(app.partition(":")[0].partition(".")[0])
        if spec is not None and spec.origin is not None:
            source = Path(spec.origin).resolve()
            folder = source.parent if source.name == "__init__.py" or not spec.parent else source.parent.parent
            if not folder.is_relative_to(here) and "site-packages" not in folder.parts:
                return [here, folder]
    return [here]


def is_source(path: Path, folders: Sequence[Path]) -> bool:
    """Whether it is a Python file of the app. Only folders below the watched ones are judged by their names."""
    if path.suffix != ".py":
        return False
    inside = [path.relative_to(folder).parts[:-1] for folder in folders if path.is_relative_to(folder)]
    return any(not any(part in IGNORED or part.startswith(".") for part in parts) for parts in inside)


class Reloader:
    """One run after the other."""

    def __init__(self, arguments: Sequence[str], folders: Sequence[Path]) -> None:
        self._arguments = arguments
        self._folders = folders
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._child: asyncio.subprocess.Process | None = None
        self._alive, self._parent_end = os.pipe()

    async def run(self) -> int:
        """Until told to stop; the exit code of the last run."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        watching = loop.create_task(self._watch())
        await asyncio.sleep(0)  # The watch begins before the first run: no change falls between the two.
        try:
            while not self._stopping.is_set():
                self._changed.clear()
                await self._run_once()
            return max(0, (self._child and self._child.returncode) or 0)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _run_once(self) -> None:
        """Until it has ended and there is a reason to run again."""
        self._child = child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "euterpe.cli.reload.child", str(self._alive), *self._arguments),
            pass_fds=[self._alive],
        )
        if self._stopping.is_set():
            _send(child, signal.SIGTERM)
        ended = asyncio.ensure_future(child.wait())
        await self._first_of(ended, self._changed, self._stopping)
        if self._stopping.is_set():
            await ended
            return
        if not ended.done():
            await self._end(child, ended)
            return
        note(f"euterpe: ended with code {child.returncode}; waiting for the next change of a Python file")
        await self._first_of(self._changed, self._stopping)

    async def _end(self, child: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
        _send(child, signal.SIGTERM)
        await asyncio.wait({ended}, timeout=PATIENCE_S)
        if not ended.done():
            note("euterpe: jobs still run; they are given back and run again, without a charge")
            _send(child, signal.SIGTERM)
        await ended

    async def _first_of(self, *awaited: asyncio.Future[int] | asyncio.Event) -> None:
        waits = {asyncio.ensure_future(each.wait()) for each in awaited if isinstance(each, asyncio.Event)}
        futures = {each for each in awaited if isinstance(each, asyncio.Future)}
        await asyncio.wait(waits | futures, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _watch(self) -> None:
        from watchfiles import awatch

        def is_wanted(_change: object, path: str) -> bool:
            return is_source(Path(path), self._folders)

        async for changes in awatch(
            *self._folders, watch_filter=is_wanted, debounce=GATHER_MS, step=50, ignore_permission_denied=True
        ):
            names = sorted({Path(path).name for _, path in changes})
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            note(f"euterpe: {', '.join(names[:3])}{more} changed; restarting")
            self._changed.set()

    def _on_signal(self, number: int) -> None:
        """Pass the order on, unless a terminal has given its Ctrl-C to the child as well."""
        self._stopping.set()
        if self._child is not None and not (number == signal.SIGINT and sys.stdin.isatty()):
            _send(self._child, signal.SIGTERM)


def _send(child: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)
