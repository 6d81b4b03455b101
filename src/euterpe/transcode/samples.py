"""A sound made on the spot, so that the first transcode needs no file of the user's."""

from __future__ import annotations

import math
import os
import struct
import wave
from pathlib import Path
from typing import Final

NAME: Final = "samples/chord.wav"
RATE: Final = 44_100
SECONDS: Final = 2
NOTES_HZ: Final = (261.63, 329.63, 392.0)


def make_sample(root: Path) -> str:
    """Its path below the root. Whole or not at all: two processes may start at once."""
    target = root / NAME
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(f".{os.getpid()}.part")
        try:
            with wave.open(str(draft), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes(_chord())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    return NAME


def _chord() -> bytes:
    total = RATE * SECONDS
    turns = [2 * math.pi * note / RATE for note in NOTES_HZ]
    return struct.pack(
        f"<{total}h",
        *(int(9_000 * (1 - at / total) * sum(math.sin(turn * at) for turn in turns)) for at in range(total)),
    )
