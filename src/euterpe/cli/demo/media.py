"""The part of the demo that transcodes: a sound made on the spot, a worker killed in the middle of its encode."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from euterpe.cli.demo.processes import LEASE
from euterpe.cli.demo.proof import Proof
from euterpe.cli.demo.receiver import Receiver
from euterpe.cli.demo.steps import LOOK_S, DemoFailed, Steps
from euterpe.service.transcoding import has_ffmpeg

SECONDS = 240
PATIENCE_S = 90.0
SOURCE = "in/noise.flac"
OUTPUTS = (
    {"id": "mp3", "kind": "audio", "preset": "mp3_v0"},
    {"id": "opus", "kind": "audio", "preset": "opus_160"},
    {"id": "peaks", "kind": "waveform", "format": "json"},
)


@dataclass(slots=True)
class Media:
    """What this part learns on its way."""

    receiver: Receiver = field(default_factory=Receiver)
    root: Path = Path()
    killed_at: float = 0.0
    status: dict[str, Any] = field(default_factory=dict)


async def transcode(play: Steps) -> Media | None:
    """None where no ffmpeg is installed."""
    if not has_ffmpeg():
        play.stage.remark("no ffmpeg here, so nothing is transcoded: pip install 'euterpe-queue[transcode]'")
        return None
    media = Media(root=play.processes.folder / "objects")
    await asyncio.to_thread(_make_sound, media.root / SOURCE)
    play.stage.remark(f"ffmpeg makes {SECONDS // 60} minutes of noise, to become an mp3, an opus and a waveform")
    with media.receiver.listening():
        assert play.api is not None
        media.receiver.secret = play.api.webhook_secret
        victim = await play.processes.media_worker("media-a")
        job_id = await asyncio.to_thread(_submit, play, media)
        await _until(play, job_id, lambda seen: seen["status"] == "processing" and _percent(seen) > 15)
        victim.kill()
        await victim.process.wait()
        media.killed_at = _percent(await asyncio.to_thread(_status, play, job_id))
        play.stage.remark(f"media-a is gone (SIGKILL) at {media.killed_at:g} % of it; media-b starts")
        await play.processes.media_worker("media-b")
        media.status = await _until(play, job_id, lambda seen: bool(seen["terminal"]))
        async with asyncio.timeout(PATIENCE_S):
            while not any(event.payload["job"]["terminal"] for event in media.receiver.events):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
    return media


def proofs_of(media: Media) -> list[Proof]:
    status, outputs = media.status, media.status["outputs"] or []
    right = [_sha256(media.root / output["key"]) == output["sha256"] for output in outputs]
    told = [str(event.payload["type"]).removeprefix("transcode.") for event in media.receiver.events]
    sequence = [int(event.payload["sequence"]) for event in media.receiver.events]
    left = [path for path in (media.root.parent / "work").rglob("*") if path.is_file()]
    return [
        Proof(
            status["status"] == "succeeded" and status["attempt_count"] == 2,
            f"the transcode that lost its worker at {media.killed_at:g} % was finished by another, "
            f"{LEASE} of lease later: attempt {status['attempt_count']}",
        ),
        Proof(
            right == [True] * len(OUTPUTS) and not left,
            f"{sum(right)} of {len(OUTPUTS)} outputs have the checksum that the status tells, and no work file is left",
        ),
        Proof(
            sequence == sorted(sequence) and told[-1:] == ["succeeded"] and not media.receiver.refused,
            f"its webhooks came signed and in order: {', '.join(told)}",
        ),
    ]


def _make_sound(path: Path) -> None:
    from euterpe.transcode.media.ffmpeg.tools import find_tools

    path.parent.mkdir(parents=True)
    sound = f"anoisesrc=d={SECONDS}:c=pink:r=44100:a=0.3:seed=7"
    command = [str(find_tools().ffmpeg), "-hide_banner", "-loglevel", "error", "-f", "lavfi", "-i", sound, "-ac", "2"]
    done = subprocess.run(  # noqa: S603  # the operator's own ffmpeg
        [*command, "-compression_level", "0", str(path)], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        raise DemoFailed("ffmpeg could not make a sound")


def _submit(play: Steps, media: Media) -> str:
    body = {
        "source": {"type": "local", "path": SOURCE},
        "destination": {"type": "local", "prefix": "out/"},
        "outputs": OUTPUTS,
        "status_webhook_url": media.receiver.url,
    }
    status, answer = _ask(play, "POST", "/transcode", msgspec.json.encode(body))
    if status != 202:
        raise DemoFailed(f"the API answered {status} to a transcode")
    job_id: str = msgspec.json.decode(answer)["job_id"]
    return job_id


def _status(play: Steps, job_id: str) -> dict[str, Any]:
    status, answer = _ask(play, "GET", f"/transcode/status?job_id={job_id}")
    if status != 200:
        raise DemoFailed(f"the API answered {status} to a question about a transcode")
    document: dict[str, Any] = msgspec.json.decode(answer)
    return document


def _ask(play: Steps, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    assert play.api is not None
    connection = http.client.HTTPConnection(urlsplit(play.api.address).netloc, timeout=10)
    headers = {"Authorization": f"Bearer {play.api.key}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def _until(play: Steps, job_id: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while not condition(seen := await asyncio.to_thread(_status, play, job_id)):
            if fallen := play.processes.fallen():
                raise DemoFailed(f"{fallen[0]} ended by itself; its log is {fallen[0]}.log")
            if seen["terminal"]:
                raise DemoFailed(f"the transcode ended {seen['status']} too soon: {seen['last_error']}")
            await asyncio.sleep(LOOK_S)
    return seen


def _percent(seen: dict[str, Any]) -> float:
    return float((seen["progress"] or {}).get("percent", 0.0))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
