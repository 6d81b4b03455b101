"""Running ffmpeg over one source, any number of times, within one deadline."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from euterpe.transcode.media.command import GLOBAL, STRICT
from euterpe.transcode.media.ffmpeg.exit_codes import error_for_exit
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import Finished, Pipe, Watch, no_check, run_contained
from euterpe.transcode.media.ffmpeg.progress import PassMeter
from euterpe.transcode.media.ffmpeg.source import input_options, opened
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.info import MediaInfo


@dataclass(slots=True, kw_only=True)
class Run:
    source: Path
    info: MediaInfo
    folder: Path
    """Where ffmpeg runs, and where everything is written until it is verified."""
    tools: Tools
    limits: MediaLimits
    strict: bool = True
    """An error while decoding ends the run."""
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.limits.timeout_s

    @property
    def output_bytes(self) -> int:
        return self.limits.output_bytes(self.info.size_bytes)

    async def ffmpeg(
        self,
        arguments: Sequence[str],
        *,
        source: Path | None = None,
        before_input: Sequence[str] = (),
        meter: PassMeter | None = None,
        file_bytes: int | None = None,
        verbose: bool = False,
        pipes: Sequence[Pipe] = (),
        check: Callable[[], Awaitable[None]] = no_check,
    ) -> Finished:
        """`arguments` come after input 0: the source, or another file. `talkative` for filters that report."""
        meter = meter or PassMeter(lambda _share, _speed: None, None)  # it also knows a standstill when it sees one
        watch = Watch(
            deadline=self.deadline,
            stall_s=self.limits.stall_s,
            on_stdout=meter.feed,
            check=check,
        )
        threads = ["-threads", str(self.limits.threads)] if self.limits.threads else []
        with opened(source or self.source) as fd:
            argv = [
                *(str(self.tools.ffmpeg), *GLOBAL, "-loglevel", "info" if verbose else "error"),
                *(*(STRICT if self.strict else ()), *threads, "-max_pixels", str(self.limits.max_pixels)),
                *(*before_input, *input_options(fd), *arguments),
            ]
            done = await run_contained(
                argv,
                limits=self.limits,
                file_bytes=self.output_bytes if file_bytes is None else file_bytes,
                cwd=self.folder,
                watch=watch,
                pass_fds=[fd],
                pipes=pipes,
            )
        if done.returncode != 0:
            raise error_for_exit(done.returncode)
        return done
