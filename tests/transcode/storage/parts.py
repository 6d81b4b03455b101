"""Small stand-ins for what a job brings: its credentials, its fence and its ledger of uploads."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from euterpe.model.errors import StaleLease
from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import AccessKeys, SignedUrl
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.ports import OpenUpload, Reason, Scope, UploadAttempt, Versioned, VersionedUrl
from euterpe.transcode.storage.retrying import Retries

MIB = 1024 * 1024
JOB = "5b0c2c52-7a0e-4a1b-9b61-0d6e4b1d0001"


async def no_wait(_: float) -> None:
    await asyncio.sleep(0)


QUICK = Retries(sleep=no_wait, rng=Random(7))


@dataclass
class JobCredentials:
    """`fresh` are what refreshes bring, one after the other."""

    current: AccessKeys | None = None
    fresh: list[AccessKeys] = field(default_factory=list)
    urls: dict[str | None, SignedUrl] = field(default_factory=dict)
    fresh_urls: list[dict[str | None, SignedUrl]] = field(default_factory=list)
    version: int = 1
    renewals: list[tuple[Scope, int, Reason]] = field(default_factory=list)

    async def keys(self, scope: Scope) -> Versioned:
        assert self.current is not None
        return Versioned(self.version, self.current)

    async def url(self, output_id: str | None) -> VersionedUrl:
        return VersionedUrl(self.version, self.urls[output_id])

    async def renew(self, scope: Scope, seen: int, reason: Reason) -> None:
        if seen < self.version:
            return
        self.renewals.append((scope, seen, reason))
        if self.fresh:
            self.current = self.fresh.pop(0)
        elif self.fresh_urls:
            self.urls = self.fresh_urls.pop(0)
        else:
            raise StorageError("credentials.refresh_failed", Category.TEMPORARY, Stage.UPLOADING, "no more of them")
        self.version += 1


@dataclass
class MemoryLedger:
    rows: list[tuple[UploadAttempt, OpenUpload]] = field(default_factory=list)

    async def opened(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        self.rows.append((attempt, upload))

    async def closed(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        self.rows = [row for row in self.rows if row[1] != upload]

    async def left_by_others(self, attempt: UploadAttempt) -> list[OpenUpload]:
        return [upload for other, upload in self.rows if other.claim_version < attempt.claim_version]


@dataclass
class Claim:
    """A fence: `lose` makes it stale. `checks` counts how often it was asked."""

    version: int = 1
    is_current: bool = True
    checks: int = 0
    when_asked: Callable[[], None] | None = None

    async def fence(self) -> None:
        self.checks += 1
        if self.when_asked is not None:
            self.when_asked()
        if not self.is_current:
            raise StaleLease(JOB, self.version)


def random_file(path: Path, size: int) -> str:
    """Made in pieces; returns its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        while size:
            data = os.urandom(min(size, MIB))
            digest.update(data)
            file.write(data)
            size -= len(data)
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
