"""Looking through a folder: its plain files, and never anything that a symbolic link leads to."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from euterpe.producer.globs import Globs


class FoundFile(NamedTuple):
    """One version of a file. `path` is below the scanned folder, with slashes; whoever writes to the file makes another
    version of it."""

    path: str
    size: int
    mtime_ns: int
    shares_stem: bool = False
    """Another file that is taken differs from it in nothing but the extension (`a.flac` beside `a.wav`)."""


@dataclass(slots=True)
class Look:
    """What one walk found."""

    files: list[FoundFile] = field(default_factory=list)
    links_out: int = 0
    """Symbolic links that lead out of the tree. Those that stay inside need no word: their target is found itself."""
    unreadable: int = 0
    """Folders that could not be listed."""
    odd_names: int = 0
    """Names that are no UTF-8: no job can carry them."""


class Tree:
    """A folder with everything below it. Blocking: call it from a thread."""

    def __init__(self, root: Path, globs: Globs, leave_out: tuple[str, ...] = ()) -> None:
        """`leave_out`: folders below the root that are never entered, such as the one our own outputs go to."""
        self.root = root.resolve()
        self._globs = globs
        self._leave_out = tuple(f"{folder.strip('/')}/" for folder in leave_out)

    def walk(self, folder: str = "", *, deep: bool = True) -> Look:
        """The files below this folder of the tree; with `deep` off, the files right in it. None where a link leads to
        the folder: who names it may have followed one. Raises OSError only where the root itself cannot be listed."""
        look = Look()
        waiting = [] if self._is_behind_link(folder) else [folder]
        while waiting:
            here = waiting.pop()
            if f"{here}/".startswith(self._leave_out) or (here and not self._globs.enter(here)):
                continue
            try:
                with os.scandir(self.root / here) as entries:
                    below = self._list(here, entries, look)
            except OSError:
                if here == "":
                    raise
                look.unreadable += 1
                continue
            if deep:
                waiting += below
        return look

    def _is_behind_link(self, folder: str) -> bool:
        here = self.root
        for name in folder.split("/"):
            here /= name
            if here.is_symlink():
                return True
        return False

    def is_unchanged(self, file: FoundFile) -> bool:
        """Whether this very version is still there."""
        try:
            status = os.lstat(self.root / file.path)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns)

    def _list(self, here: str, entries: Iterator[os.DirEntry[str]], look: Look) -> list[str]:
        """Adds the files of one folder to the look; returns the folders in it."""
        folders: list[str] = []
        files: list[FoundFile] = []
        for entry in entries:
            path = f"{here}/{entry.name}" if here else entry.name
            if not _is_utf8(entry.name):
                look.odd_names += 1
            elif entry.is_symlink():
                look.links_out += self._leads_out(path)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif self._globs.take(path) and (found := _plain_file(entry, path)) is not None:
                files.append(found)
        stems = Counter(_stem(file.path) for file in files)
        look.files += [file if stems[_stem(file.path)] == 1 else file._replace(shares_stem=True) for file in files]
        return folders

    def _leads_out(self, path: str) -> bool:
        try:
            target = (self.root / path).resolve(strict=True)
        except (OSError, RuntimeError):  # it leads nowhere, or round in a circle
            return False
        return not target.is_relative_to(self.root)


def _plain_file(entry: os.DirEntry[str], path: str) -> FoundFile | None:
    """None for pipes, sockets and devices, and for what went away meanwhile."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return FoundFile(path, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _stem(path: str) -> str:
    return os.path.splitext(path)[0]  # noqa: PTH122  # a thousand paths a folder: no objects for them


def _is_utf8(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
