"""Files of this machine transcoded without a server: a queue of its own for as long as it takes.

It is the service's own job type on a database in a temporary folder, so that whatever a worker checks, limits, retries
and cleans up is checked, limited, retried and cleaned up here.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from euterpe.egress.target import EgressPolicy
from euterpe.model.errors import EuterpeError
from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.queue.queue import Queue, core_of
from euterpe.transcode.handler.disk import DiskRoom
from euterpe.transcode.handler.encoders import Encoders
from euterpe.transcode.handler.job import Transcoder, register
from euterpe.transcode.handler.places import Places
from euterpe.transcode.handler.workspace import Workspaces
from euterpe.transcode.local_ports import NoCredentials, NoUploads
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import find_tools
from euterpe.transcode.schema.checking import read_outputs
from euterpe.transcode.schema.locations import STAGING, LocalDestination, LocalSource
from euterpe.transcode.schema.outputs import Output
from euterpe.transcode.schema.presets import AUDIO_PRESETS, VIDEO_PRESETS
from euterpe.transcode.schema.request import JOB_TYPE, TranscodePayload

POLL_S: Final = 0.1
OnFileProgress = Callable[[str, float, str], object]
"""The name of a file, how far it is in percent, and the speed and time left in words."""


class BatchProblem(EuterpeError):
    """What was asked for cannot be done."""


@dataclass(frozen=True, slots=True)
class Batch:
    files: Sequence[Path]
    presets: Sequence[str]
    out: Path
    at_once: int | None = None


async def transcode_files(batch: Batch, on_progress: OnFileProgress) -> list[dict[str, Any]]:
    """A document for each file, in order: `source`, `status`, `outputs` or `error`. Raises BatchProblem."""
    wanted = [outputs_for(path, batch.presets) for path in batch.files]
    _check_names(batch.files, wanted)
    try:
        tools = await asyncio.to_thread(find_tools)
    except MediaError as error:
        raise BatchProblem(error.message) from None
    out = batch.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    at_once = batch.at_once or os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="euterpe-transcode-") as folder:
        queue = Queue(f"sqlite:///{folder}/jobs.db")
        transcoder = Transcoder(
            tools=tools,
            limits=MediaLimits(),
            workspaces=Workspaces(Path(folder) / "work"),
            places=Places(EgressPolicy(), out, NoUploads(), source_root=Path("/")),
            credentials_of=lambda _attempt: NoCredentials(),
            encoders=Encoders(at_once),
            disk=DiskRoom(Path(folder), 0),
            requester_of=_local_requester,
        )
        register(queue, transcoder)
        async with queue:
            jobs = [await _submit(queue, path, outputs) for path, outputs in zip(batch.files, wanted, strict=True)]
            stop = asyncio.Event()
            working = asyncio.create_task(
                queue.work(transcoder.encoders.worker_limit, stop=stop, webhooks=False, poll="100ms")
            )
            try:
                ended = [await _follow(queue, job_id, path.name, on_progress) for path, job_id in jobs]
            finally:
                stop.set()
                await working
    with suppress(OSError):
        (out / STAGING).rmdir()
    return [_document(path, job, out) for path, job in zip(batch.files, ended, strict=True)]


def outputs_for(path: Path, presets: Sequence[str]) -> tuple[Output, ...]:
    raw = []
    for preset in presets:
        if preset in AUDIO_PRESETS:
            kind, extension = "audio", AUDIO_PRESETS[preset].codec.extensions[0]
        elif preset in VIDEO_PRESETS:
            kind, extension = "video", VIDEO_PRESETS[preset].extensions[0]
        else:
            known = ", ".join([*AUDIO_PRESETS, *VIDEO_PRESETS])
            raise BatchProblem(f"there is no preset {preset!r}; known are {known}")
        raw.append({"id": preset, "kind": kind, "preset": preset, "filename": f"{path.stem}.{extension}"})
    names = [each["filename"] for each in raw]
    for each in raw:  # Two presets of one format would write one file.
        if names.count(each["filename"]) > 1:
            stem, _, extension = each["filename"].rpartition(".")
            each["filename"] = f"{stem}.{each['id']}.{extension}"
    outputs, problems = read_outputs(raw)
    if problems:
        raise BatchProblem(f"{path.name}: {problems[0].problem.message}")
    return outputs


def _check_names(files: Sequence[Path], wanted: Sequence[Sequence[Output]]) -> None:
    seen: dict[str, Path] = {}
    for path, outputs in zip(files, wanted, strict=True):
        for output in outputs:
            name = str(getattr(output, "filename", ""))
            if seen.setdefault(name, path) != path:
                raise BatchProblem(f"{seen[name]} and {path} would both become {name}; transcode them one by one")


def _payload(path: Path, outputs: tuple[Output, ...]) -> TranscodePayload:
    source = LocalSource(path=str(path.resolve()).lstrip("/"))
    return TranscodePayload(source=source, destination=LocalDestination(), outputs=outputs)


async def _local_requester(_job_id: str) -> str:
    return LOCAL_REQUESTER


async def _submit(queue: Queue, path: Path, outputs: tuple[Output, ...]) -> tuple[Path, str]:
    payload = _payload(path, outputs)
    job = await queue.submit(JOB_TYPE, msgspec.to_builtins(payload), max_attempts=2)
    return path, job.id


async def _follow(queue: Queue, job_id: str, name: str, on_progress: OnFileProgress) -> JobRow:
    while True:
        job = await core_of(queue).get(job_id)
        done = job.state in TERMINAL
        on_progress(name, 100.0 if done else job.progress or 0.0, "" if done else job.progress_message or job.status)
        if done:
            return job
        await asyncio.sleep(POLL_S)


def _document(path: Path, job: JobRow, out: Path) -> dict[str, Any]:
    returned = msgspec.json.decode(job.result) if job.result is not None else {}
    outputs = [{"path": str(out / output["key"]), **output} for output in returned.get("outputs", [])]
    error = None if job.error is None or outputs else job.error_document
    return {
        "source": str(path),
        "status": job.status,
        "outputs": outputs,
        "warnings": returned.get("warnings", []),
        "error": error,
    }
