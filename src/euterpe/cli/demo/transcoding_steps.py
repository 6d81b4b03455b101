"""The part of the demo that transcodes: from a real S3 and back, with credentials that run out on the way and a worker
killed in the middle of its encode."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from euterpe.cli.demo.api_calls import call
from euterpe.cli.demo.object_store import BUCKET, ObjectStore, find_rclone
from euterpe.cli.demo.processes import ApiFacts
from euterpe.cli.demo.receiver import Receiver
from euterpe.cli.demo.steps import POLL_S, DemoFailed, Steps
from euterpe.service.components.transcoding import has_ffmpeg
from euterpe.webhooks import VerifiedEvent

SECONDS = 180
TRANSCODE_TIMEOUT_S = 90.0
IN_THE_MIDDLE = 20.0
SOURCE = "in/noise.flac"
OUTPUTS = (
    {"id": "mp3", "kind": "audio", "preset": "mp3_v0"},
    {"id": "wav", "kind": "audio", "preset": "wav_16"},
    {"id": "peaks", "kind": "waveform", "format": "json"},
)
Document = dict[str, Any]


@dataclass(slots=True)
class Media:
    """What this part learns on its way."""

    folder: Path
    store: ObjectStore
    api: ApiFacts
    webhooks: Receiver
    refreshes: Receiver
    updates: list[int] = field(default_factory=list)
    """The answers to the PUTs of fresh credentials."""
    killed_at: float = 0.0
    leaks: list[str] = field(default_factory=list)
    status: Document = field(default_factory=dict)


async def transcode(steps: Steps) -> Media | None:
    """None where there is no ffmpeg, or no rclone to be the object store."""
    rclone = find_rclone()
    if rclone is None or not has_ffmpeg():
        missing = "rclone" if rclone is None else "ffmpeg"
        steps.stage.remark(f"no {missing} here, so nothing is transcoded; `./run demo` in a checkout brings it along")
        return None
    assert steps.api is not None
    folder = steps.processes.folder
    media = Media(
        folder, ObjectStore(folder / "s3"), steps.api, Receiver(), Receiver(lambda event: _renew(media, event))
    )
    media.webhooks.secret = media.refreshes.secret = steps.api.webhook_secret
    sound = folder / "noise.flac"
    await asyncio.to_thread(_make_sound, sound)
    steps.stage.remark(f"ffmpeg makes {SECONDS // 60} minutes of noise, to become an mp3, a wav and a waveform")
    async with media.store.serving(rclone, folder / "rclone.log"):
        with media.webhooks.listening(), media.refreshes.listening():
            await asyncio.to_thread(media.store.put, SOURCE, sound)
            steps.stage.remark("it is put into a real S3: `rclone serve s3`, behind a gate that knows session tokens")
            await _play(steps, media)
    return media


async def _play(steps: Steps, media: Media) -> None:
    victim = await steps.processes.media_worker("media-a", media.api)
    job_id = await asyncio.to_thread(_submit, media)
    await _until(steps, media, job_id, _is_in_the_middle)
    media.leaks += await asyncio.to_thread(secrets_found, media)
    victim.kill()
    await victim.process.wait()
    media.killed_at = _percent(await asyncio.to_thread(_status, media, job_id))
    media.store.expire()
    steps.stage.remark(f"media-a is gone (SIGKILL) at {media.killed_at:g} % of it, and the credentials have run out")
    media.store.expires_at_part = 2
    await steps.processes.media_worker("media-b", media.api)
    steps.stage.remark("media-b will be given fresh ones, which run out at the second part of its largest upload")
    media.status = await _until(steps, media, job_id, lambda seen: bool(seen["terminal"]))
    async with asyncio.timeout(TRANSCODE_TIMEOUT_S):
        while not any(event.payload["job"]["terminal"] for event in media.webhooks.events):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    media.leaks += await asyncio.to_thread(secrets_found, media)


def secrets_found(media: Media) -> list[str]:
    """Files of Euterpe (database, WAL, logs, work files) that hold the secret key or a token."""
    secrets = [value.encode() for value in (media.store.secret_access_key, *media.store.issued)]
    files = [*media.folder.glob("*"), *(media.folder / "work").rglob("*"), *(media.folder / "local").rglob("*")]
    found = []
    for path in files:
        with suppress(OSError):  # A folder, or a file that is gone already: a worker is at work.
            content = path.read_bytes()
            found += [path.name for secret in secrets if secret in content]
    return found


def _renew(media: Media, event: VerifiedEvent) -> None:
    """What a requester does when it is asked: PUT fresh credentials to the address in the signed call."""
    asked = event.payload
    keys = media.store.issue()
    body = {"credentials": {"source": keys, "destination": keys}, "refresh_id": asked["refresh_id"]}
    headers = {"If-Match": f'"{asked["credential_version"]}"'}
    status, _ = call(media.api, "PUT", asked["update_url"], body, headers)
    media.updates.append(status)


def _submit(media: Media) -> str:
    keys = media.store.issue()
    place = {"type": "s3", "endpoint": media.store.endpoint, "bucket": BUCKET}
    body = {
        "source": {**place, "key": SOURCE},
        "destination": {**place, "prefix": "out/"},
        "credentials": {"source": keys, "destination": keys},
        "outputs": OUTPUTS,
        "status_webhook_url": media.webhooks.url,
        "refresh_url": media.refreshes.url,
    }
    status, answer = call(media.api, "POST", "/transcode", body)
    if status != 202:
        raise DemoFailed(f"the API answered {status} to a transcode")
    job_id: str = msgspec.json.decode(answer)["job_id"]
    return job_id


def _status(media: Media, job_id: str) -> Document:
    status, answer = call(media.api, "GET", f"/transcode/status?job_id={job_id}")
    if status != 200:
        raise DemoFailed(f"the API answered {status} to a question about a transcode")
    document: Document = msgspec.json.decode(answer)
    return document


async def _until(steps: Steps, media: Media, job_id: str, condition: Callable[[Document], bool]) -> Document:
    async with asyncio.timeout(TRANSCODE_TIMEOUT_S):
        while True:
            seen = await asyncio.to_thread(_status, media, job_id)
            steps.stage.transcode(seen["attempt_count"], _percent(seen), _words(seen))
            if condition(seen):
                return seen
            if ended_early := steps.processes.ended_early():
                raise DemoFailed(f"{ended_early[0]} ended by itself; its log is {ended_early[0]}.log")
            if seen["terminal"]:
                raise DemoFailed(f"the transcode ended {seen['status']} too soon: {seen['last_error']}")
            await asyncio.sleep(POLL_S)


def _is_in_the_middle(seen: Document) -> bool:
    return bool(seen["status"] == "processing") and _percent(seen) > IN_THE_MIDDLE


def _percent(seen: Document) -> float:
    return float((seen["progress"] or {}).get("percent", 0.0))


def _words(seen: Document) -> str:
    progress = seen["progress"] or {}
    speed, left = progress.get("speed"), progress.get("eta_seconds")
    words = [seen["status"], f"{speed:g}x" if speed else "", f"{left:g} s left" if left else ""]
    return ", ".join(word for word in words if word)


def _make_sound(path: Path) -> None:
    from euterpe.transcode.media.ffmpeg.tools import find_tools

    sound = f"anoisesrc=d={SECONDS}:c=pink:r=44100:a=0.3:seed=7"
    command = [str(find_tools().ffmpeg), "-hide_banner", "-loglevel", "error", "-f", "lavfi", "-i", sound, "-ac", "2"]
    done = subprocess.run(  # noqa: S603  # the operator's own ffmpeg
        [*command, "-compression_level", "0", str(path)], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        raise DemoFailed("ffmpeg could not make a sound")
