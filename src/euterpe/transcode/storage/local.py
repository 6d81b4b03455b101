"""Files of this machine, below one root: the store of the embedded default.

An output is written under a hidden staging folder, synced, and renamed to its place under a lock that holds the highest
claim version seen of its job: see the package about fencing.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from euterpe.model.errors import InvalidInput, StaleLease
from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import STAGING, LocalDestination, LocalSource
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.local_root import LocalRoot, split, translated
from euterpe.transcode.storage.ports import Fence, Fetched, Progress, SourceInfo, Stored, UploadAttempt
from euterpe.transcode.storage.threads import Digest, in_thread

_STEP: Final = 8 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_LOCK: Final = "fence"
_LOCK_WAIT_S: Final = 10.0
_LOCK_POLL_S: Final = 0.01
_JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class LocalReader:
    def __init__(self, location: LocalSource, root: LocalRoot) -> None:
        self._location = location
        self._root = root

    async def stat(self) -> SourceInfo:
        return await in_thread(self._stat)

    def _stat(self) -> SourceInfo:
        with self._root.reading(self._location.path) as descriptor:
            status = os.fstat(descriptor)
            return SourceInfo(status.st_size, _etag(status))

    async def fetch(self, path: Path, *, max_bytes: int, progress: Progress | None = None) -> Fetched:
        # One `with` for many steps in threads: a cancelled fetch waits for its step and then closes.
        with self._root.reading(self._location.path) as descriptor, path.open("wb", buffering=0) as into:
            before = os.fstat(descriptor)
            if before.st_size > max_bytes:
                raise self._error("source.too_large", f"it has more than the {max_bytes} bytes allowed")
            digest, size = hashlib.sha256(), 0
            while moved := await in_thread(_move, descriptor, into.fileno(), digest, Stage.FETCHING):
                size += moved
                if size > max_bytes:
                    raise self._error("source.too_large", f"it has more than the {max_bytes} bytes allowed")
                if progress is not None:
                    progress(size)
            if _etag(os.fstat(descriptor)) != _etag(before):
                raise self._error("source.changed", "it changed while it was read")
        found = digest.hexdigest()
        if self._location.sha256 is not None and found != self._location.sha256:
            raise self._error("source.checksum_mismatch", "its SHA-256 is not the one that was asked for")
        return Fetched(size, found, _etag(before))

    async def close(self) -> None:
        return

    def _error(self, code: str, message: str) -> StorageError:
        return StorageError(code, Category.PERMANENT, Stage.FETCHING, f"{self._location.path}: {message}")


class StagedFile:
    """A draft. A rename publishes it."""

    def __init__(self, writer: LocalWriter, stored: Stored, draft: str, fence: Fence) -> None:
        self.key = stored.key
        self._writer = writer
        self._stored = stored
        self._draft = draft
        self._fence = fence

    async def publish(self) -> Stored:
        await self._writer.publish(self._draft, self.key, self._fence)
        return self._stored

    async def discard(self) -> None:
        self._writer.remove_draft(self._draft)


class LocalWriter:
    def __init__(self, location: LocalDestination, attempt: UploadAttempt, root: LocalRoot) -> None:
        if not _JOB_ID.fullmatch(attempt.job_id):
            raise InvalidInput("job_id", "cannot name a folder")
        self._prefix = location.prefix
        self._attempt = attempt
        self._root = root
        self._staging = (STAGING, attempt.job_id)

    async def put(
        self,
        path: Path,
        name: str,
        *,
        content_type: str,
        fence: Fence,
        progress: Progress | None = None,
    ) -> Stored:
        staged = await self.stage(path, name, content_type=content_type, fence=fence, progress=progress)
        try:
            return await staged.publish()
        finally:
            await staged.discard()

    async def stage(
        self,
        path: Path,
        name: str,
        *,
        content_type: str,  # noqa: ARG002  # a file has none
        fence: Fence,
        progress: Progress | None = None,
    ) -> StagedFile:
        """A draft in the folder of this job, on the same file system as its place, and synced."""
        draft = f"{self._attempt.claim_version}-{secrets.token_hex(8)}.part"
        key = f"{self._prefix}{name}"
        self._check_place(key)
        try:
            with self._root.internal(self._staging, Stage.UPLOADING, create=True) as staging:
                size, digest, etag = await self._write(path, draft, staging, progress)
        except BaseException:
            self.remove_draft(draft)
            raise
        return StagedFile(self, Stored(key, size, digest, etag), draft, fence)

    def _check_place(self, key: str) -> None:
        """Raise now what would end the publishing of several outputs half way."""
        *parts, last = split(key)
        with self._root.folder(parts, Stage.UPLOADING, create=True) as folder, suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                message = f"{key}: a folder has this name; give the output another filename, or move the folder"
                raise StorageError("output.is_a_folder", Category.PERMANENT, Stage.UPLOADING, message)

    async def publish(self, draft: str, key: str, fence: Fence) -> None:
        *parts, last = split(key)
        with (
            self._root.internal(self._staging, Stage.UPLOADING, create=True) as staging,
            self._root.folder(parts, Stage.UPLOADING, create=True) as folder,
        ):
            async with self._alone(staging):
                await fence()
                with translated(Stage.UPLOADING, key):
                    # Not in a thread: a cancelled caller must know whether it happened.
                    os.rename(draft, last, src_dir_fd=staging, dst_dir_fd=folder)
            with translated(Stage.UPLOADING, key):
                await in_thread(os.fsync, folder)

    def remove_draft(self, draft: str) -> None:
        with suppress(StorageError, OSError), self._root.internal(self._staging, Stage.UPLOADING) as staging:
            os.unlink(draft, dir_fd=staging)

    async def etag_at(self, key: str) -> str | None:
        try:
            with self._root.reading(key) as descriptor:
                return _etag(os.fstat(descriptor))
        except StorageError as error:
            if error.code != "source.not_found":
                raise
            return None

    async def copy(self, key: str, name: str, *, etag: str, fence: Fence) -> str | None:
        with self._root.reading(key) as descriptor:
            if _etag(os.fstat(descriptor)) != etag:
                raise StorageError("source.changed", Category.PERMANENT, Stage.UPLOADING, f"{key}: it changed")
            # The descriptor pins what was looked at, whatever the name leads to by now.
            stored = await self.put(Path(f"/dev/fd/{descriptor}"), name, content_type="", fence=fence)
        return stored.etag

    async def delete(self, name: str, *, etag: str | None = None, fence: Fence | None = None) -> None:
        *parts, last = split(f"{self._prefix}{name}")
        with self._root.internal(self._staging, Stage.UPLOADING, create=True) as staging:
            async with self._alone(staging):
                if fence is not None:
                    await fence()
                try:
                    with self._root.folder(parts, Stage.UPLOADING) as folder, suppress(FileNotFoundError):
                        if etag is None or _etag(os.stat(last, dir_fd=folder, follow_symlinks=False)) == etag:
                            os.unlink(last, dir_fd=folder)
                except StorageError as error:
                    if error.code != "storage.unavailable":
                        raise

    async def discard_leftovers(self) -> int:
        """Also tells all older attempts, from now on, that they are stale."""
        with self._root.internal(self._staging, Stage.UPLOADING, create=True) as staging:
            async with self._alone(staging):
                return await in_thread(self._remove_drafts, staging)

    async def remove_older_folders(self, name: str) -> None:
        with suppress(StorageError), self._root.folder(split(f"{self._prefix}{name}"), Stage.UPLOADING) as folder:
            for older in self._attempt.older_folders():
                await in_thread(partial(shutil.rmtree, older.rstrip("/"), ignore_errors=True, dir_fd=folder))

    async def close(self) -> None:
        return

    async def finish(self) -> None:
        """The job has ended: nobody needs its staging folder any more."""
        with suppress(StorageError), self._root.internal(self._staging, Stage.UPLOADING) as staging:
            for name in os.listdir(staging):  # noqa: PTH208  # by descriptor
                os.unlink(name, dir_fd=staging)
        with suppress(StorageError, OSError), self._root.internal((STAGING,), Stage.UPLOADING) as above:
            os.rmdir(self._attempt.job_id, dir_fd=above)

    async def _write(
        self, path: Path, draft: str, staging: int, progress: Progress | None
    ) -> tuple[int, str, str | None]:
        digest, size = hashlib.sha256(), 0
        with translated(Stage.UPLOADING, draft):
            source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                into = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=staging)
                try:
                    while moved := await in_thread(_move, source, into, digest, Stage.UPLOADING, size):
                        size += moved
                        if progress is not None:
                            progress(size)
                    await in_thread(os.fsync, into)
                    return size, digest.hexdigest(), _etag(os.fstat(into))
                finally:
                    os.close(into)
            finally:
                os.close(source)

    @asynccontextmanager
    async def _alone(self, staging: int) -> AsyncIterator[None]:
        """The job's lock, with our claim version in it. Raises StaleLease where a newer one is there already."""
        with _lock_file(staging) as lock:
            until = time.monotonic() + _LOCK_WAIT_S
            while not _try_lock(lock):
                if time.monotonic() > until:
                    raise StorageError(
                        "storage.locked",
                        Category.TEMPORARY,
                        Stage.UPLOADING,
                        "an older attempt holds the lock of this job",
                    )
                await asyncio.sleep(_LOCK_POLL_S)
            seen = int(os.pread(lock, 20, 0) or b"0")
            if seen > self._attempt.claim_version:
                raise StaleLease(self._attempt.job_id, self._attempt.claim_version)
            if seen < self._attempt.claim_version:
                os.pwrite(lock, b"%020d" % self._attempt.claim_version, 0)
            yield

    def _remove_drafts(self, staging: int) -> int:
        removed = 0
        for name in os.listdir(staging):  # by descriptor
            version, dash, _ = name.partition("-")
            if dash and version.isdecimal() and int(version) < self._attempt.claim_version:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=staging)
                    removed += 1
        return removed


async def remove_staging_of_ended(root: LocalRoot, has_ended: Callable[[str], Awaitable[bool]]) -> int:
    """What killed workers left of jobs that nobody will run again; returns how many jobs."""
    try:
        with root.internal((STAGING,), Stage.UPLOADING) as staging:
            names = await in_thread(os.listdir, staging)
    except StorageError:
        return 0
    removed = 0
    for name in names:
        if _UUID.fullmatch(name) and await has_ended(name):
            await LocalWriter(LocalDestination(), UploadAttempt(name, 0), root).finish()
            removed += 1
    return removed


def _move(source: int, into: int, digest: Digest, stage: Stage, offset: int | None = None) -> int:
    """Up to one step of bytes; 0 at the end. With an offset it reads there, whatever the descriptor's own place."""
    moved = 0
    while moved < _STEP:
        data = os.read(source, _CHUNK) if offset is None else os.pread(source, _CHUNK, offset + moved)
        if not data:
            break
        with translated(stage, "this worker's disk"):
            view = memoryview(data)
            while view:
                view = view[os.write(into, view) :]
        digest.update(data)
        moved += len(data)
    return moved


@contextmanager
def _lock_file(staging: int) -> Iterator[int]:
    with translated(Stage.UPLOADING, "the lock of this job"):
        descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=staging)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _etag(status: os.stat_result) -> str:
    """Of a file: another one after every change that a file system can tell."""
    text = f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"' if stat.S_ISREG(status.st_mode) else '""'
