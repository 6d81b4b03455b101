"""Equal work is done once: one claim does it, equal requests of the same requester wait for it and copy what it made.

Work is equal when the source's checksum, the outputs, the version of ffmpeg and the store that outputs go to are.
Whoever takes a piece of work owns it as long as its claim is current; when the claim is lost the next one takes it.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one
from euterpe.transcode.schema.locations import DestinationLocation, LocalDestination, S3Destination, endpoint_of
from euterpe.transcode.schema.request import TranscodePayload
from euterpe.transcode.storage.ports import UploadAttempt

KEPT_US: Final = 7 * 24 * 3600 * 1_000_000
"""How long a result is offered to equal requests."""


class SharedResult(msgspec.Struct, frozen=True):
    """What a job made, and where: below this prefix its outputs have the names of everyone's."""

    prefix: str
    returned: dict[str, Any]


class SharedWork(msgspec.Struct, frozen=True):
    job_id: str
    done_at: int | None
    result: SharedResult | None


class SharedWorkStore:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def take(self, work_key: str, attempt: UploadAttempt) -> bool:
        """True: this claim does the work. False: another one does it, or has done it."""
        return await self._engine.write(lambda: take_work(work_key, attempt))

    async def get(self, work_key: str, job_id: str) -> SharedWork | None:
        """As the requester of this job may see it."""
        return await self._engine.read(lambda: shared_work(work_key, job_id))

    async def finish(self, work_key: str, attempt: UploadAttempt, result: SharedResult) -> None:
        await self._engine.write(lambda: finish_work(work_key, attempt, result))

    async def drop(self, work_key: str, job_id: str, done_at: int) -> None:
        """Its files are not there any more; whoever comes next does the work again."""
        await self._engine.write(lambda: drop_work(work_key, job_id, done_at))

    async def forget_old(self) -> None:
        await self._engine.write(forget_work)


def work_key_of(payload: TranscodePayload, source_sha256: str, tool_version: str) -> str | None:
    """None where outputs cannot be copied: a signed URL only takes them."""
    store = _store_of(payload.destination)
    if store is None:
        return None
    outputs = msgspec.json.encode(payload.outputs, order="deterministic")
    encoded = msgspec.json.encode([source_sha256.lower(), tool_version, store])
    return hashlib.sha256(encoded + outputs).hexdigest()


def prefix_of(destination: DestinationLocation) -> str:
    return destination.prefix if isinstance(destination, S3Destination | LocalDestination) else ""


def _store_of(destination: DestinationLocation) -> list[str] | None:
    match destination:
        case S3Destination():
            return ["s3", endpoint_of(destination), destination.bucket]
        case LocalDestination():
            return ["local"]
        case _:
            return None


def take_work(work_key: str, attempt: UploadAttempt) -> Program[bool]:
    rows = yield one(
        "transcode/take_work", work_key=work_key, job_id=attempt.job_id, claim_version=attempt.claim_version
    )
    return bool(rows)


def shared_work(work_key: str, job_id: str) -> Program[SharedWork | None]:
    rows = yield one("transcode/shared_work", work_key=work_key, job_id=job_id)
    if not rows:
        return None
    worker, done_at, result = rows[0]
    return SharedWork(str(worker), done_at, None if result is None else msgspec.json.decode(result, type=SharedResult))


def finish_work(work_key: str, attempt: UploadAttempt, result: SharedResult) -> Program[None]:
    yield one(
        "transcode/finish_work",
        work_key=work_key,
        job_id=attempt.job_id,
        claim_version=attempt.claim_version,
        result=msgspec.json.encode(result).decode(),
    )


def drop_work(work_key: str, job_id: str, done_at: int) -> Program[None]:
    yield one("transcode/drop_work", work_key=work_key, job_id=job_id, done_at=done_at)


def forget_work() -> Program[None]:
    yield one("transcode/forget_work", kept_us=KEPT_US)
