"""The rows of credentials and uploads: programs over an engine, and the sealed sets in and out of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from euterpe.crypto import KeyWrapper, Sealed, SealingKeys, credentials_context, rewrap, seal, unseal
from euterpe.model.errors import StaleLease
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, Row, one
from euterpe.transcode.schema.locations import CredentialSet, LocalDestination, Locations, S3Destination, S3Source
from euterpe.transcode.storage.ports import Fence, OpenUpload, UploadAttempt

REWRAP_BATCH: Final = 100
PURGE_BATCH: Final = 200
ORPHAN_US: Final = 3600 * 1_000_000
"""Credentials are stored before their job: so long may a submission take."""
LOWEST_ID: Final = "00000000-0000-0000-0000-000000000000"

_locations = msgspec.json.Decoder(Locations)
_sets = msgspec.json.Decoder(CredentialSet)


class StoredCredentials(msgspec.Struct, frozen=True):
    """A row, in the order of `credential_columns.sql`. Times are in microseconds."""

    job_id: str
    requester_id: str
    version: int
    locations_json: str
    refresh_url: str | None
    refresh_id: str | None
    refresh_attempts: int
    decrypt_failures: int
    expires_at: int | None
    updated_at: int
    encrypted: bytes | None
    dek_wrapped: bytes | None
    kek_id: str | None
    encryption_version: int | None

    @property
    def locations(self) -> Locations:
        return _locations.decode(self.locations_json)

    @property
    def sealed(self) -> Sealed | None:
        """None once they were purged."""
        if self.encrypted is None or self.dek_wrapped is None or self.kek_id is None or self.encryption_version is None:
            return None
        return Sealed(bytes(self.encrypted), bytes(self.dek_wrapped), self.kek_id, self.encryption_version)

    def __repr__(self) -> str:
        return f"StoredCredentials({self.job_id!r}, version={self.version}, {self.sealed!r})"


class CredentialStore:
    """The credentials of one database under one set of keys.

    Sealing may ask a key service over the network, so it happens beside the event loop and never inside a transaction.
    """

    def __init__(self, engine: Engine, keys: SealingKeys) -> None:
        self._engine = engine
        self._keys = keys

    async def create(
        self, job_id: str, requester_id: str, locations: Locations, secrets: CredentialSet, refresh_url: str | None
    ) -> None:
        """Store the first version. Call it before the job is submitted; of a job that never comes it is purged."""
        sealed = await self.seal(job_id, requester_id, 1, secrets)
        await self._engine.write(
            lambda: insert_credentials(job_id, requester_id, locations, secrets.expires_at, refresh_url, sealed)
        )

    async def get(self, job_id: str) -> StoredCredentials | None:
        return await self._engine.read(lambda: credentials_of(job_id))

    async def version(self, job_id: str) -> int | None:
        return await self._engine.read(lambda: version_of(job_id))

    async def seal(self, job_id: str, requester_id: str, version: int, secrets: CredentialSet) -> Sealed:
        context = credentials_context(job_id, requester_id, version)
        return await asyncio.to_thread(seal, msgspec.json.encode(secrets), context, self._keys)

    async def unseal(self, stored: StoredCredentials, sealed: Sealed) -> CredentialSet:
        """Raises MissingKek or SealBroken."""
        context = credentials_context(stored.job_id, stored.requester_id, stored.version)
        return _sets.decode(await asyncio.to_thread(unseal, sealed, context, self._keys))

    async def replace(
        self, stored: StoredCredentials, sealed: Sealed, expires_at: int | None, refresh_id: str | None
    ) -> StoredCredentials | None:
        """The next version in place of this one; None where somebody was faster, or the job has ended."""
        return await self._engine.write(lambda: replace_credentials(stored, sealed, expires_at, refresh_id))

    async def job_state(self, job_id: str, requester_id: str) -> str | None:
        return await self._engine.read(lambda: job_state(job_id, requester_id))

    async def has_ended(self, job_id: str) -> bool:
        """False for a job that is not known."""
        return await self._engine.read(lambda: job_has_ended(job_id))

    async def count_refresh(self, attempt: UploadAttempt) -> int:
        """How many calls were made for this job with this one. Raises StaleLease."""
        counted = await self._engine.write(lambda: count_refresh(attempt))
        if counted is None:
            raise StaleLease(attempt.job_id, attempt.claim_version)
        return counted

    async def count_decrypt_failure(self, stored: StoredCredentials) -> int:
        return await self._engine.write(lambda: count_decrypt_failure(stored.job_id, stored.version))

    async def purge(self, job_id: str) -> bool:
        """Remove what is sealed, because the job has ended; False where nothing was."""
        return bool(await self._engine.write(lambda: purge([job_id])))

    async def purge_ended(self) -> int:
        """For every job that ended, however it did, and for what belongs to no job. Safe beside others."""
        purged, after = 0, LOWEST_ID
        while True:
            ids = await self._engine.read(partial(ended_jobs, "transcode/ended_with_credentials", after))
            if not ids:
                return purged
            purged += await self._engine.write(partial(purge, ids))
            after = ids[-1]

    async def forget_pruned(self) -> int:
        """Remove the rows of jobs that retention has removed."""
        removed, after = 0, LOWEST_ID
        while True:
            ids = await self._engine.read(partial(ended_jobs, "transcode/credentials_without_job", after))
            if not ids:
                return removed
            removed += await self._engine.write(partial(forget, ids))
            after = ids[-1]

    async def count_by_kek(self) -> dict[str, int]:
        return await self._engine.read(count_by_kek)

    async def rewrap_all(self, keys: KeyWrapper, progress: Callable[[int], None] | None = None) -> int:
        """Wrap every set by the active key; safe beside workers and refreshes, and to begin again after a break."""
        changed, after = 0, LOWEST_ID
        while True:
            rows = await self._engine.read(partial(credentials_to_rewrap, keys.active_kek_id, after))
            if not rows:
                return changed
            fresh = await asyncio.to_thread(_rewrapped, rows, keys)
            changed += await self._engine.write(partial(store_wraps, fresh))
            after = rows[-1].job_id
            if progress is not None:
                progress(changed)


class SqlUploads:
    """The ledger of multipart uploads, in the jobs' own database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def opened(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        if not await self._engine.write(lambda: insert_upload(attempt, upload)):
            raise StaleLease(attempt.job_id, attempt.claim_version)

    async def closed(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        await self._engine.write(lambda: delete_upload(attempt, upload))

    async def left_by_others(self, attempt: UploadAttempt) -> list[OpenUpload]:
        return await self._engine.read(lambda: uploads_left(attempt))


def claim_fence(engine: Engine, attempt: UploadAttempt) -> Fence:
    """Asks the database whether this claim still owns its job."""

    async def fence() -> None:
        if not await engine.read(lambda: claim_is_current(attempt)):
            raise StaleLease(attempt.job_id, attempt.claim_version)

    return fence


def insert_credentials(
    job_id: str,
    requester_id: str,
    locations: Locations,
    expires_at: int | None,
    refresh_url: str | None,
    sealed: Sealed,
) -> Program[None]:
    source, destination = locations.source, locations.destination
    yield one(
        "transcode/insert_credentials",
        job_id=job_id,
        requester_id=requester_id,
        locations=msgspec.json.encode(locations).decode(),
        source_bucket=source.bucket if isinstance(source, S3Source) else None,
        source_key=source.key if isinstance(source, S3Source) else None,
        destination_bucket=destination.bucket if isinstance(destination, S3Destination) else None,
        destination_prefix=destination.prefix if isinstance(destination, S3Destination | LocalDestination) else None,
        refresh_url=refresh_url,
        expires_at=_microseconds(expires_at),
        **_seal_columns(sealed),
    )


def credentials_of(job_id: str) -> Program[StoredCredentials | None]:
    rows = yield one("transcode/credentials_of", job_id=job_id)
    return _stored(rows[0]) if rows else None


def version_of(job_id: str) -> Program[int | None]:
    rows = yield one("transcode/credential_version", job_id=job_id)
    return rows[0][0] if rows else None


def replace_credentials(
    stored: StoredCredentials, sealed: Sealed, expires_at: int | None, refresh_id: str | None
) -> Program[StoredCredentials | None]:
    rows = yield one(
        "transcode/replace_credentials",
        job_id=stored.job_id,
        requester_id=stored.requester_id,
        seen=stored.version,
        refresh_id=refresh_id,
        expires_at=_microseconds(expires_at),
        **_seal_columns(sealed),
    )
    return _stored(rows[0]) if rows else None


def job_state(job_id: str, requester_id: str) -> Program[str | None]:
    rows = yield one("transcode/job_state", job_id=job_id, requester_id=requester_id)
    return rows[0][0] if rows else None


def job_has_ended(job_id: str) -> Program[bool]:
    return bool((yield one("transcode/job_has_ended", job_id=job_id)))


def count_refresh(attempt: UploadAttempt) -> Program[int | None]:
    rows = yield one("transcode/count_refresh", job_id=attempt.job_id, claim_version=attempt.claim_version)
    return rows[0][0] if rows else None


def count_decrypt_failure(job_id: str, version: int) -> Program[int]:
    rows = yield one("transcode/count_decrypt_failure", job_id=job_id, credential_version=version)
    return rows[0][0] if rows else 0


def purge(job_ids: Sequence[str]) -> Program[int]:
    purged = 0
    for job_id in job_ids:
        purged += len((yield one("transcode/purge_credentials", job_id=job_id)))
    return purged


def forget(job_ids: Sequence[str]) -> Program[int]:
    removed = 0
    for job_id in job_ids:
        yield one("transcode/delete_uploads_of_pruned", job_id=job_id)
        removed += len((yield one("transcode/delete_credentials", job_id=job_id)))
    return removed


def ended_jobs(statement: str, after: str) -> Program[list[str]]:
    rows = yield one(statement, after=after, orphan_us=ORPHAN_US, limit=PURGE_BATCH)
    return [str(row[0]) for row in rows]


def count_by_kek() -> Program[dict[str, int]]:
    rows = yield one("transcode/credentials_by_kek")
    return {row[0]: row[1] for row in rows}


def credentials_to_rewrap(active: str, after: str) -> Program[list[StoredCredentials]]:
    rows = yield one("transcode/credentials_to_rewrap", active=active, after=after, limit=REWRAP_BATCH)
    return [_stored(row) for row in rows]


def store_wraps(fresh: Sequence[tuple[StoredCredentials, Sealed]]) -> Program[int]:
    changed = 0
    for row, sealed in fresh:
        stored = yield one(
            "transcode/rewrap_credentials",
            job_id=row.job_id,
            credential_version=row.version,
            dek_wrapped=sealed.dek_wrapped,
            kek_id=sealed.kek_id,
            old_kek_id=row.kek_id,
            old_dek_wrapped=row.dek_wrapped,
        )
        changed += len(stored)
    return changed


def insert_upload(attempt: UploadAttempt, upload: OpenUpload) -> Program[bool]:
    rows = yield one(
        "transcode/insert_upload",
        job_id=attempt.job_id,
        claim_version=attempt.claim_version,
        object_key=upload.key,
        upload_id=upload.upload_id,
    )
    return bool(rows)


def delete_upload(attempt: UploadAttempt, upload: OpenUpload) -> Program[None]:
    yield one("transcode/delete_upload", job_id=attempt.job_id, object_key=upload.key, upload_id=upload.upload_id)


def uploads_left(attempt: UploadAttempt) -> Program[list[OpenUpload]]:
    rows = yield one("transcode/uploads_left", job_id=attempt.job_id, claim_version=attempt.claim_version)
    return [OpenUpload(row[0], row[1]) for row in rows]


def claim_is_current(attempt: UploadAttempt) -> Program[bool]:
    rows = yield one("transcode/claim_is_current", job_id=attempt.job_id, claim_version=attempt.claim_version)
    return bool(rows)


def _rewrapped(rows: Sequence[StoredCredentials], keys: KeyWrapper) -> list[tuple[StoredCredentials, Sealed]]:
    return [
        (row, rewrap(row.sealed, credentials_context(row.job_id, row.requester_id, row.version), keys))
        for row in rows
        if row.sealed is not None
    ]


def _stored(row: Row) -> StoredCredentials:
    job_id, *others = row
    return StoredCredentials(str(job_id), *others)


def _seal_columns(sealed: Sealed) -> dict[str, object]:
    return {
        "encrypted": sealed.encrypted,
        "dek_wrapped": sealed.dek_wrapped,
        "kek_id": sealed.kek_id,
        "encryption_version": sealed.encryption_version,
    }


def _microseconds(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1_000_000
