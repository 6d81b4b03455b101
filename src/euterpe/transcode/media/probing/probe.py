"""What is in a file, found out in a child process: a hostile file may crash a parser, and then only that child dies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError, bad_source
from euterpe.transcode.media.ffmpeg.exit_codes import CRASHED, error_for_exit
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import STDOUT_MOST_BYTES, Watch, run_briefly
from euterpe.transcode.media.ffmpeg.source import DEMUXERS, checked_size, input_options, is_cut_ogg, opened
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.media.probing.probe_json import read_ffprobe
from euterpe.transcode.media.probing.probe_text import read_ffmpeg

ESTIMATED = "Estimating duration from bitrate"
_INVALID_DATA = 183


async def probe(source: Path, *, tools: Tools, limits: MediaLimits) -> MediaInfo:
    """Raises MediaError `media.*` where it is no media file, or more of one than the limits allow."""
    size = checked_size(source, limits)
    info = await describe(source, size, tools=tools, limits=limits)
    _hold_limits(info, limits)
    if info.format == "ogg" and is_cut_ogg(source):
        raise bad_source("truncated", "the source breaks off in the middle of a page")
    return info


async def describe(
    source: Path, size: int, *, tools: Tools, limits: MediaLimits, demuxers: Sequence[str] = DEMUXERS
) -> MediaInfo:
    with opened(source) as fd:
        if tools.ffprobe is None:
            argv = [str(tools.ffmpeg), *_QUIET, "-loglevel", "info", *input_options(fd, demuxers), *_AS_TEXT]
        else:
            argv = [
                str(tools.ffprobe),
                *_QUIET,
                "-loglevel",
                "warning",
                *input_options(fd, demuxers),
                *_AS_JSON,
            ]
        watch = Watch(deadline=time.monotonic() + limits.probe_timeout_s, stall_s=limits.probe_timeout_s)
        try:
            done = await run_briefly(argv, limits=limits, cwd=source.parent, watch=watch, pass_fds=[fd])
        except MediaError as error:
            if error.category is Category.TIMEOUT:
                raise bad_source("probe_timeout", "the source could not be read in time") from error
            raise
    if done.returncode != 0:
        # ffprobe says 1 for everything that it cannot open.
        failed = error_for_exit(_INVALID_DATA if done.returncode == 1 else done.returncode)
        raise bad_source("unreadable", "the source makes the parser crash") if failed.code == CRASHED.code else failed
    if len(done.stdout) > STDOUT_MOST_BYTES:
        raise bad_source("too_much_metadata", "the source has more metadata than can be read")
    estimated = ESTIMATED in done.stderr
    if tools.ffprobe is None:
        return read_ffmpeg(done.stdout.decode(errors="replace"), done.stderr, size, estimated)
    return read_ffprobe(done.stdout, size, estimated)


_QUIET = ("-hide_banner",)
_AS_TEXT = ("-f", "ffmetadata", "pipe:1")
_AS_JSON = ("-show_format", "-show_streams", "-show_chapters", "-of", "json=compact=1")


def _hold_limits(info: MediaInfo, limits: MediaLimits) -> None:
    if not info.of_kind("audio") and not info.of_kind("video"):
        raise bad_source("no_streams", "the source has neither sound nor picture")
    if len(info.streams) > limits.max_streams:
        raise bad_source("too_many_streams", f"the source has more than {limits.max_streams} streams")
    if (info.duration_ms or 0) > limits.max_duration_s * 1000:
        raise bad_source("too_long", f"the source is longer than {limits.max_duration_s:g} seconds")
    for stream in info.streams:
        if (stream.width or 0) * (stream.height or 0) > limits.max_pixels:
            raise bad_source("too_many_pixels", f"a picture of the source has more than {limits.max_pixels} pixels")
