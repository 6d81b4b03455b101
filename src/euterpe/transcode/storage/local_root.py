"""A folder that nothing leads out of: every step down is opened from the folder above, and follows no link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from euterpe.model.failures.failure import Category
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.transcode.schema.locations import STAGING
from euterpe.transcode.storage.errors import Stage, StorageError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

REQUESTERS: Final = "requesters"
RESERVED: Final = frozenset({STAGING, REQUESTERS})


class LocalRoot:
    """`below`: where the names that are given begin. `reserved`: first names that are refused there."""

    def __init__(self, root: Path, below: Sequence[str] = (), reserved: frozenset[str] = frozenset()) -> None:
        self._root = root
        self._below = tuple(below)
        self._reserved = reserved

    def of(self, requester_id: str) -> LocalRoot:
        """The part of this requester: a folder below `requesters/`. The machine's own jobs have the rest."""
        if requester_id == LOCAL_REQUESTER:
            return LocalRoot(self._root, (), RESERVED)
        return LocalRoot(self._root, (REQUESTERS, quote(requester_id, safe=" ").replace("..", "%2E%2E")))

    @contextmanager
    def folder(self, parts: Sequence[str], stage: Stage, *, create: bool = False) -> Iterator[int]:
        """A descriptor of this folder."""
        if parts and parts[0] in self._reserved:
            message = f"{'/'.join(parts)}: the names {' and '.join(sorted(self._reserved))} are taken; use another"
            raise StorageError("storage.access_denied", Category.PERMANENT, stage, message)
        with self.internal((*self._below, *parts), stage, create=create) as descriptor:
            yield descriptor

    @contextmanager
    def internal(self, parts: Sequence[str], stage: Stage, *, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder that no requester names, from the root itself."""
        with translated(stage, "/".join(parts)):
            if create:
                self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
            # The root itself is the operator's, and may be a link.
            descriptor = os.open(self._root, _FOLDER & ~os.O_NOFOLLOW)
            try:
                for part in parts:
                    _check_part(part)
                    below = _step(descriptor, part, create=create)
                    os.close(descriptor)
                    descriptor = below
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """A descriptor of a plain file. O_NONBLOCK, because opening a pipe would wait for its writer."""
        *parts, name = split(path)
        with self.folder(parts, Stage.FETCHING) as folder, translated(Stage.FETCHING, path):
            _check_part(name)
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError(errno.ELOOP, "not a plain file")
                yield descriptor
            finally:
                os.close(descriptor)


def split(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


@contextmanager
def translated(stage: Stage, path: str) -> Iterator[None]:
    """Errors of the file system as errors of a store."""
    try:
        yield
    except OSError as error:
        raise _error(stage, path, error) from None


def _step(folder: int, part: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
    return os.open(part, _FOLDER, dir_fd=folder)


def _check_part(part: str) -> None:
    if part in ("", ".", "..") or "/" in part or "\0" in part:
        raise OSError(errno.EINVAL, "not a plain name")


def _error(stage: Stage, path: str, error: OSError) -> StorageError:
    why = f"{path}: {error.strerror}"
    if error.errno in _FULL:
        return StorageError("worker.disk", Category.SYSTEM, stage, why)
    if error.errno == errno.ENOENT and stage is Stage.FETCHING:
        return StorageError("source.not_found", Category.PERMANENT, stage, why)
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.ENXIO, errno.EISDIR):
        code = "source.not_a_file" if stage is Stage.FETCHING else "output.not_a_folder"
        return StorageError(code, Category.PERMANENT, stage, f"{path}: links and special files are not followed")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError("storage.access_denied", Category.PERMANENT, stage, why)
    return StorageError("storage.unavailable", Category.TEMPORARY, stage, why)
