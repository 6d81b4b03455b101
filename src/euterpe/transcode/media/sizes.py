"""What an encode has written so far, held to its limits: one walk over its folder at a time, in a thread.

An HLS output may have tens of thousands of files: on the event loop, a look at each of them would stop the worker.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from euterpe.transcode.media.errors import bad_output
from euterpe.transcode.media.ffmpeg.run import Run
from euterpe.transcode.media.prepared import Prepared, too_many_segments

PAUSE_FACTOR: Final = 10
"""Between two walks, in times of what the last one took."""

OTHER_FILES: Final = 1_000
"""Beside segments: playlists, covers, tags, thumbnails."""

CheckDisk = Callable[[int], None]
"""Gets the bytes of a job's outputs so far; raises MediaError where the disk has no room for more. Runs in a thread."""


@dataclass(slots=True)
class Written:
    sizes: Counter[str]
    """Bytes by the name of the first folder, or of a file outside of any."""
    files: int


class OutputSizes:
    """The kernel bounds each file; many files of one output, and all outputs together, are bounded here."""

    def __init__(self, run: Run, outputs: Sequence[Prepared], check_disk: CheckDisk) -> None:
        self._folder = run.folder
        self._outputs = outputs
        self._output_bytes = run.output_bytes
        self._job_bytes = run.limits.max_job_bytes
        self._most_files = run.limits.max_segments + OTHER_FILES
        self._check_disk = check_disk
        self._next_walk_at = 0.0

    async def check_now_and_then(self) -> None:
        if time.monotonic() >= self._next_walk_at:
            began = time.monotonic()
            await self.check()
            ended = time.monotonic()
            self._next_walk_at = ended + PAUSE_FACTOR * (ended - began)

    async def check(self) -> None:
        """Raises MediaError for what is over its limit."""
        written = await asyncio.to_thread(self._walk)
        sizes = written.sizes
        for each in self._outputs:
            if sizes[each.folder] > self._output_bytes:
                raise bad_output("too_large", "the output grew beyond its limit", each.output.id)
        if written.files > self._most_files:
            raise too_many_segments(written.files, self._most_files)
        if sizes.total() > self._job_bytes:
            raise bad_output(
                "job_too_large", f"all outputs together grew beyond {self._job_bytes} bytes; ask for fewer in one job"
            )

    async def full(self) -> list[Prepared]:
        """The outputs that have reached their limit."""
        sizes = (await asyncio.to_thread(sizes_in, self._folder)).sizes
        return [each for each in self._outputs if sizes[each.folder] >= self._output_bytes]

    def _walk(self) -> Written:
        written = sizes_in(self._folder)
        self._check_disk(written.sizes.total())
        return written


def sizes_in(folder: Path) -> Written:
    """What is below this folder. What vanishes meanwhile is not counted."""
    written = Written(Counter(), 0)
    places = [(str(folder), "")]
    while places:
        place, first = places.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        places.append((entry.path, first or entry.name))
                        continue
                    written.sizes[first or entry.name] += entry.stat(follow_symlinks=False).st_size
                    written.files += 1
        except FileNotFoundError:
            continue
    return written
