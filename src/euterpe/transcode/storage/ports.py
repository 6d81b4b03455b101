"""What a handler may rely on, whatever store is behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from euterpe.transcode.schema.locations import AccessKeys, SignedUrl

Scope = Literal["source", "destination"]
Reason = Literal["expired", "denied", "expiring", "missing"]

Fence = Callable[[], Awaitable[None]]
"""Raises StaleLease where the claim is not current any more. Asked right before an output becomes visible."""

Progress = Callable[[int], None]
"""Told how many bytes have been moved so far."""


@dataclass(frozen=True, slots=True)
class UploadAttempt:
    """Who writes: a job and the claim under which it runs."""

    job_id: str
    claim_version: int

    @property
    def folder(self) -> str:
        """The folder of this attempt alone, for files that another file names. No other job or attempt writes there."""
        return f"attempt-{self.job_id}-{self.claim_version}/"

    def older_folders(self) -> list[str]:
        """Of the attempts of this job before this one."""
        return [UploadAttempt(self.job_id, version).folder for version in range(1, self.claim_version)]


@dataclass(frozen=True, slots=True)
class SourceInfo:
    size: int | None
    etag: str | None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    size: int
    sha256: str
    etag: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """An output that is there, whole."""

    key: str
    size: int
    sha256: str
    etag: str | None


class Source(Protocol):
    """Read-only. A source that changes while it is read is an error, never a mixture."""

    async def stat(self) -> SourceInfo:
        """Size and version, before anything is fetched."""

    async def fetch(self, path: Path, *, max_bytes: int, progress: Progress | None = None) -> Fetched:
        """Write the whole of it to this file; a broken connection is resumed, and never past `max_bytes`."""

    async def close(self) -> None: ...


class Staged(Protocol):
    """An output that the store holds whole and shows to no reader yet."""

    @property
    def key(self) -> str: ...

    async def publish(self) -> Stored:
        """Show it under its key, in place of what the key holds. Raises StaleLease, and then the key is as it was."""

    async def discard(self) -> None:
        """Remove it. What was published stays."""


class Destination(Protocol):
    """Outputs by name, below the destination's prefix. See the package about fencing."""

    async def stage(
        self, path: Path, name: str, *, content_type: str, fence: Fence, progress: Progress | None = None
    ) -> Staged:
        """Upload it whole, to be published later."""

    async def put(
        self, path: Path, name: str, *, content_type: str, fence: Fence, progress: Progress | None = None
    ) -> Stored:
        """Whole or not at all. Raises StaleLease, and then nothing of this attempt is visible."""

    async def etag_at(self, key: str) -> str | None:
        """Of what lies under this full key now; None where nothing does."""

    async def copy(self, key: str, name: str, *, etag: str, fence: Fence) -> str | None:
        """A copy, made by the store, of an object that is there already under this full key; returns its new etag."""

    async def delete(self, name: str, *, etag: str | None = None, fence: Fence | None = None) -> None:
        """Gone afterwards, whether it was there or not. With an etag, what another has put there since stays."""

    async def discard_leftovers(self) -> int:
        """Remove what older attempts of this job began and never finished; returns how many."""

    async def remove_older_folders(self, name: str) -> None:
        """Remove the folders that older attempts of this job have in this one, as far as the credentials allow it."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Versioned:
    """Access keys with the credential version that they belong to."""

    version: int
    keys: AccessKeys


@dataclass(frozen=True, slots=True)
class VersionedUrl:
    version: int
    signed: SignedUrl


class Credentials(Protocol):
    """The credentials of one job. Both calls may take as long as a refresh does."""

    async def keys(self, scope: Scope) -> Versioned:
        """The current ones, good for some time yet."""

    async def url(self, output_id: str | None) -> VersionedUrl:
        """The signed URL of the source, or of this output."""

    async def renew(self, scope: Scope, seen: int, reason: Reason) -> None:
        """Version `seen` was refused: returns once there is a newer one. Raises StorageError when there is none."""


@dataclass(frozen=True, slots=True)
class OpenUpload:
    key: str
    upload_id: str


class UploadLedger(Protocol):
    """Which multipart uploads were begun and neither completed nor aborted."""

    async def opened(self, attempt: UploadAttempt, upload: OpenUpload) -> None: ...

    async def closed(self, attempt: UploadAttempt, upload: OpenUpload) -> None: ...

    async def left_by_others(self, attempt: UploadAttempt) -> list[OpenUpload]:
        """Of the same job, by older claims."""
