"""Folders for the files of running attempts. Each is gone when its attempt is over; what a killed worker left is
removed at the next start.

Beside each folder lies a lock file that its process holds: the kernel lets go of it when the process dies, however.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

log = logging.getLogger("euterpe.transcode")

LOCK_SUFFIX: Final = ".lock"


class Workspaces:
    def __init__(self, root: Path) -> None:
        self.root = root

    @asynccontextmanager
    async def folder(self, name: str) -> AsyncIterator[Path]:
        """A fresh folder whose name begins with this one."""
        descriptor, folder = self._make(name)
        try:
            yield folder
        finally:
            try:
                # Shielded from a second cancellation: a large tree takes a moment, and has to go.
                await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, True))
            finally:
                with suppress(OSError):
                    _lock_of(folder).unlink()
                os.close(descriptor)

    def remove_abandoned(self) -> int:
        """Remove the folders of processes that are gone; returns how many. Safe beside workers that run."""
        removed = 0
        for lock in self.root.glob(f"*{LOCK_SUFFIX}"):
            try:
                descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                if _try_lock(descriptor):
                    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                    lock.unlink(missing_ok=True)
                    removed += 1
            finally:
                os.close(descriptor)
        if removed:
            log.info("removed the files of %d attempts whose workers are gone", removed)
        return removed

    def _make(self, name: str) -> tuple[int, Path]:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            folder = self.root / f"{name}-{secrets.token_hex(6)}"
            descriptor = os.open(_lock_of(folder), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # Between the two lines another process may have taken it for abandoned.
            if _try_lock(descriptor) and os.fstat(descriptor).st_nlink:
                folder.mkdir(mode=0o700)
                return descriptor, folder
            os.close(descriptor)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + LOCK_SUFFIX)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
