"""The job type `transcode`: fetch, probe, encode, upload. What it returns is the end of the status document.

Nothing of an attempt outlives it: its folder goes in `finally`, and outputs that it published before it failed or was
cancelled are taken back while the claim is still its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from euterpe.model.errors import EuterpeError, IllegalTransition, PermanentError, StaleLease
from euterpe.model.failures.failure import Category
from euterpe.model.state import TRANSCODE_STAGES
from euterpe.queue.queue import Queue, core_of
from euterpe.stores.sql.engine import Engine
from euterpe.transcode.estimate import RunHistory
from euterpe.transcode.handler.disk import DiskRoom, Reservation
from euterpe.transcode.handler.encoders import Encoders
from euterpe.transcode.handler.failing import failure_for, internal_failure
from euterpe.transcode.handler.places import CredentialsOf, JobCredentials, Places
from euterpe.transcode.handler.progress import ProgressReporter
from euterpe.transcode.handler.progress_callbacks import ProgressCallbacks
from euterpe.transcode.handler.sharing import EqualWork
from euterpe.transcode.handler.store_places import places_of
from euterpe.transcode.handler.uploading import Uploads
from euterpe.transcode.handler.workspace import Workspaces
from euterpe.transcode.media.encode import encode
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.exit_codes import after_crash
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.media.probing.probe import probe
from euterpe.transcode.media.results import EncodedOutput
from euterpe.transcode.schema.locations import DestinationLocation, LocalDestination, LocalSource, SourceLocation
from euterpe.transcode.schema.outputs import Output
from euterpe.transcode.schema.request import (
    CALLBACK_EVENTS,
    DEFAULT_MAX_ATTEMPTS,
    JOB_TYPE,
    RequestInvalid,
    TranscodePayload,
    payload_of,
)
from euterpe.transcode.shared_work import SharedResult, SharedWork, SharedWorkStore
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.ports import Fetched, UploadAttempt
from euterpe.worker.context import Context
from euterpe.worker.failures import GivenBack, HandlerFailed

log = logging.getLogger("euterpe.transcode")

MOST_TAG_BYTES: Final = 16_000
SETTLE_S: Final = 5.0
"""Of the execution timeout this much is left for the upload of what an encode that just made it has made."""


RequesterOf = Callable[[str], Awaitable[str]]
"""The requester of a job, by its id."""


@dataclass(frozen=True, slots=True)
class Transcoder:
    """What attempts share in one process."""

    tools: Tools
    limits: MediaLimits
    workspaces: Workspaces
    places: Places
    credentials_of: CredentialsOf
    encoders: Encoders
    disk: DiskRoom
    requester_of: RequesterOf
    database: Engine | None = None
    """Where runs are remembered, equal work is shared and progress is called back; a lone command has none of it."""

    async def run(self, ctx: Context, payload: TranscodePayload) -> dict[str, Any]:
        """One attempt. Raises HandlerFailed with a code, or StaleLease."""
        attempt = _Attempt(self, ctx, payload)
        try:
            return await attempt.run()
        except (MediaError, StorageError) as error:
            judged = await attempt.judged(error)
            raise HandlerFailed(failure_for(judged, attempt.stage, ctx.attempt, payload)) from None
        except IllegalTransition:
            message = f"a transcode has the stages {', '.join(TRANSCODE_STAGES)}; this job was submitted without them"
            raise PermanentError(message, code="request.invalid") from None
        except (StaleLease, GivenBack, asyncio.CancelledError):
            raise
        except Exception as error:
            log.exception("a transcode failed for a reason of our own", extra={"job_id": ctx.job_id})
            raise HandlerFailed(internal_failure(attempt.stage)) from error


def register(queue: Queue, transcoder: Transcoder, job_queue: str = "default") -> None:
    """Make `transcode` a job type of this queue, run by this transcoder. A worker claims what it can encode, and one
    job more, whose source is fetched meanwhile."""

    @queue.job(
        JOB_TYPE,
        queue=job_queue,
        stages=TRANSCODE_STAGES,
        max_attempts=DEFAULT_MAX_ATTEMPTS,
        callback_events=CALLBACK_EVENTS,
        worker_limit=transcoder.encoders.worker_limit,
    )
    async def transcode(
        ctx: Context,
        source: SourceLocation,
        destination: DestinationLocation,
        outputs: list[Output],
        refresh_url: str | None = None,
        reuse: bool = False,
        progress_webhook_seconds: int | None = None,
    ) -> dict[str, Any]:
        try:
            payload = payload_of(
                {
                    "source": msgspec.to_builtins(source),
                    "destination": msgspec.to_builtins(destination),
                    "outputs": msgspec.to_builtins(outputs),
                    "refresh_url": refresh_url,
                    "reuse": reuse,
                    "progress_webhook_seconds": progress_webhook_seconds,
                }
            )
        except (RequestInvalid, msgspec.ValidationError) as error:
            raise PermanentError(str(error), code="request.invalid") from None
        return await transcoder.run(ctx, payload)

    core_of(queue).handlers.name_places(JOB_TYPE, places_of)


class _Attempt:
    def __init__(self, transcoder: Transcoder, ctx: Context, payload: TranscodePayload) -> None:
        self._with = transcoder
        self._ctx = ctx
        self._payload = payload
        self._attempt = UploadAttempt(ctx.job_id, ctx.claim_version)
        every_s = payload.progress_webhook_seconds
        self._callbacks = (
            ProgressCallbacks(transcoder.database, self._attempt, every_s)
            if every_s is not None and transcoder.database is not None
            else None
        )
        self._reporter = ProgressReporter(ctx.progress, None if self._callbacks is None else self._callbacks.moved)
        self._equal = (
            EqualWork(
                SharedWorkStore(transcoder.database), payload, self._attempt, transcoder.tools.version, self._fence
            )
            if payload.reuse and transcoder.database is not None
            else None
        )
        self._noted: dict[str, Any] = {}
        self._requester_id = ""
        """Known where files of this machine are meant, of which each requester has its own."""
        self.stage = TRANSCODE_STAGES[0]

    async def run(self) -> dict[str, Any]:
        name = f"{self._attempt.job_id}-{self._attempt.claim_version}"
        credentials = self._with.credentials_of(self._attempt)
        try:
            if isinstance(self._payload.source, LocalSource) or isinstance(self._payload.destination, LocalDestination):
                self._requester_id = await self._with.requester_of(self._attempt.job_id)
            async with self._with.workspaces.folder(name) as folder, self._with.disk.reservation(folder) as room:
                returned = await self._in_folder(folder, credentials, room)
            await self._ctx.progress(100.0)
            return returned
        finally:
            if self._callbacks is not None:
                await self._callbacks.close()
            await credentials.close()

    async def judged(self, error: MediaError | StorageError) -> MediaError | StorageError:
        """An encoder that dies of the same signal twice on the same source dies of the source."""
        if not isinstance(error, MediaError) or error.signal is None:
            return error
        former = self._ctx.last_checkpoint
        judged = after_crash(error, former.get("crash_signal") if isinstance(former, dict) else None)
        if judged is error:
            await self._ctx.checkpoint({**self._noted, "crash_signal": error.signal})
        return judged

    async def _in_folder(self, folder: Path, credentials: JobCredentials, room: Reservation) -> dict[str, Any]:
        path = folder / "source"
        began_s = time.monotonic()
        await self._enter("fetching")
        named = self._payload.source.sha256
        if named is not None and (reused := await self._made_before(named, credentials)) is not None:
            return await self._hand_over(reused)
        fetched = await self._fetch(path, credentials, room)
        if (reused := await self._made_before(fetched.sha256, credentials)) is not None:
            return await self._hand_over(reused)
        async with self._with.encoders.turn(self._ctx):
            await self._enter("processing")
            info = await probe(path, tools=self._with.tools, limits=self._with.limits)
            source = _source_document(fetched, info)
            self._noted = {"source": source}
            await self._ctx.checkpoint(self._noted)
            made = await self._encode(path, folder, info, room)
        path.unlink()  # The disk may be small, and uploads may take long.
        await self._enter("uploading")
        outputs = await self._upload(made, credentials)
        returned = {"outputs": outputs, "source": source, "warnings": _warnings(made)}
        await self._share_result(returned, info.duration_ms, began_s)
        return returned

    async def _made_before(self, source_sha256: str, credentials: JobCredentials) -> dict[str, Any] | None:
        if self._equal is None:
            return None

        async def copy(work: SharedWork, result: SharedResult) -> dict[str, Any]:
            async with self._uploading(credentials) as uploads:
                outputs = await uploads.copy_all(result.returned["outputs"], result.prefix)
            return {**result.returned, "outputs": outputs, "reused_from": work.job_id}

        return await self._equal.result_for(source_sha256, copy)

    async def _hand_over(self, reused: dict[str, Any]) -> dict[str, Any]:
        """No stage is skipped, also by who had nothing left to do in them."""
        for stage in TRANSCODE_STAGES[TRANSCODE_STAGES.index(self.stage) + 1 :]:
            await self._enter(stage)
        return reused

    async def _share_result(self, returned: dict[str, Any], media_ms: int | None, began_s: float) -> None:
        """For equal requests and for estimates. The outputs are there, whatever becomes of this."""
        run_ms = round((time.monotonic() - began_s) * 1000)
        try:
            if self._equal is not None:
                await self._equal.share(returned)
            if self._with.database is not None and media_ms is not None:
                history = RunHistory(self._with.database)
                await history.record(self._attempt.job_id, self._payload.outputs, media_ms, run_ms)
        except EuterpeError as error:
            log.warning("a run was not recorded", extra={"error_code": type(error).__name__})

    async def _enter(self, stage: str) -> None:
        self.stage = stage
        await self._ctx.stage(stage)

    async def _fetch(self, path: Path, credentials: JobCredentials, room: Reservation) -> Fetched:
        limit = self._with.limits.max_source_bytes
        source = self._with.places.source(self._payload.source, credentials, self._requester_id)
        try:
            size = (await source.stat()).size
            if size is not None and size > limit:
                message = f"the source has {size} bytes, more than the {limit} allowed"
                raise StorageError("source.too_large", Category.PERMANENT, Stage.FETCHING, message)
            await self._with.disk.admit(room, size or 0)
            fetched = await source.fetch(
                path, max_bytes=limit, progress=lambda done: self._reporter.moved("fetching", done, size)
            )
            if size is None:
                await self._with.disk.admit(room, fetched.size)
            return fetched
        finally:
            await source.close()

    async def _encode(self, path: Path, folder: Path, info: MediaInfo, room: Reservation) -> list[EncodedOutput]:
        left_s = max(1.0, self._ctx.deadline - time.monotonic() - SETTLE_S)
        made_in = folder / "made"
        made_in.mkdir()
        return await encode(
            path,
            self._payload.outputs,
            made_in,
            tools=self._with.tools,
            limits=replace(self._with.limits, timeout_s=min(self._with.limits.timeout_s, left_s)),
            on_progress=self._reporter.encoding,
            info=info,
            check_disk=lambda output_bytes: self._with.disk.check(room, output_bytes),
        )

    async def _upload(self, made: Sequence[EncodedOutput], credentials: JobCredentials) -> list[dict[str, Any]]:
        async with self._uploading(credentials) as uploads:
            return await uploads.put_all(made)

    @asynccontextmanager
    async def _uploading(self, credentials: JobCredentials) -> AsyncIterator[Uploads]:
        """Uploads that are taken back where they do not all succeed."""
        location = self._payload.destination
        destination = self._with.places.destination(location, self._attempt, credentials, self._requester_id)
        uploads = Uploads(destination, location, self._attempt, self._fence, self._reporter)
        try:
            try:
                await destination.discard_leftovers()
                yield uploads
                await uploads.finish()
            except BaseException:
                await uploads.undo()
                raise
        finally:
            await destination.close()

    async def _fence(self) -> None:
        """A fenced write: StaleLease where the claim is not current any more."""
        await self._ctx.progress(self._reporter.percent)


def _source_document(fetched: Fetched, info: MediaInfo) -> dict[str, Any]:
    streams = [
        {name: value for name, value in msgspec.to_builtins(stream).items() if value and name != "tags"}
        for stream in info.streams
    ]
    tags = info.tags if len(msgspec.json.encode(info.tags)) <= MOST_TAG_BYTES else {}
    return {
        "size": fetched.size,
        "sha256": fetched.sha256,
        "etag": fetched.etag,
        "probe": {
            "format": info.format,
            "duration_ms": info.duration_ms,
            "bit_rate": info.bit_rate,
            "streams": streams,
            "tags": tags,
            "chapters": len(info.chapters),
        },
    }


def _warnings(made: Sequence[EncodedOutput]) -> list[dict[str, str]]:
    return [{"output_id": output.id, "code": code} for output in made for code in output.warnings]
