"""The part of the demo where a folder of music becomes a folder of encodes, by the README's one command."""

from __future__ import annotations

import array
import asyncio
import math
import time
import wave
from pathlib import Path
from typing import Final

from euterpe.cli.demo.proof import Proof
from euterpe.cli.demo.steps import POLL_S, DemoFailed, Steps
from euterpe.service.components.transcoding import has_ffmpeg

PATIENCE_S: Final = 60.0
RATE: Final = 8_000


async def start_the_pipeline(steps: Steps) -> Path | None:
    """It starts while other things are shown. None where there is no ffmpeg."""
    if not has_ffmpeg():
        return None
    root = steps.processes.folder / "media"
    _make_tone(root / "in/first.wav")
    await steps.processes.pipeline("pipeline", root)
    return root


async def encode_a_folder(steps: Steps, root: Path) -> Proof:
    await _until_there(steps, root / "encodes/first.mp3")
    steps.stage.remark("media/in/first.wav is media/encodes/first.mp3; a second file comes while it runs")
    _make_tone(root / "second.wav")
    (root / "in/album").mkdir()
    (root / "second.wav").rename(root / "in/album/second.wav")
    await _until_there(steps, root / "encodes/album/second.mp3")
    return prove_encodes(root)


def prove_encodes(root: Path) -> Proof:
    """Each file of the folder, and nothing else, has an encode that is an mp3."""
    wanted = {path.relative_to(root / "in").with_suffix(".mp3") for path in (root / "in").rglob("*.wav")}
    there = {path.relative_to(root / "encodes") for path in (root / "encodes").rglob("*") if path.is_file()}
    sound = [name for name in there & wanted if _is_mp3(root / "encodes" / name)]
    claim = f"a folder of {len(wanted)} files became a folder of {len(sound)} encodes, the late one too"
    return Proof(len(wanted) > 1 and there == wanted and len(sound) == len(wanted), claim)


def _is_mp3(path: Path) -> bool:
    head = path.read_bytes()[:3]
    return head == b"ID3" or head[:1] == b"\xff"


def _make_tone(path: Path) -> None:
    """Half a second of sound, without any tool."""
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = (int(8_000 * math.sin(2 * math.pi * 440 * n / RATE)) for n in range(RATE // 2))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(array.array("h", samples).tobytes())


async def _until_there(steps: Steps, path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():  # noqa: ASYNC240  # a look at one local name
        if ended_early := steps.processes.ended_early():
            raise DemoFailed(f"{ended_early[0]} ended by itself; its log is {ended_early[0]}.log")
        if time.monotonic() > deadline:
            raise DemoFailed(f"gave up after {PATIENCE_S:.0f} s of waiting until {path.name} was there")
        await asyncio.sleep(POLL_S)
