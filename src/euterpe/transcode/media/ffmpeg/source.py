"""The source as an open descriptor: the only thing a child process can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from euterpe.transcode.media.errors import bad_source
from euterpe.transcode.media.ffmpeg.limits import MediaLimits

# What may read a source. Left out on purpose: everything that opens further files or addresses (concat, hls, dash,
# imf, sdp, ...), pictures, text and devices.
DEMUXERS = (
    *("aac", "ac3", "aiff", "amr", "ape", "asf", "au", "avi", "caf", "dsf", "dts", "eac3", "flac", "flv"),
    *("matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2", "mp3", "mpc", "mpc8", "mpeg", "mpegts", "ogg", "tak", "tta"),
    *("truehd", "voc", "w64", "wav", "wv"),
)

WAV_HEAD = 64 * 1024
OGG_HEADER = 27
OGG_PAGE_MOST = OGG_HEADER + 255 + 255 * 255


@contextmanager
def opened(source: Path) -> Iterator[int]:
    """Opened anew for each run: a child moves the position. Neither a link nor a device is followed."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise bad_source("unreadable", "the source cannot be opened as a plain file") from None  # it names the path
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise bad_source("unreadable", "the source is not a plain file")
        yield fd
    finally:
        os.close(fd)


def checked_size(source: Path, limits: MediaLimits) -> int:
    with opened(source) as fd:
        size = os.fstat(fd).st_size
    if size == 0:
        raise bad_source("empty", "the source is empty")
    if size > limits.max_source_bytes:
        raise bad_source("too_large", f"the source is larger than {limits.max_source_bytes} bytes")
    return size


def input_options(fd: int, demuxers: Sequence[str] = DEMUXERS) -> list[str]:
    """What stands before `-i`: this descriptor, these formats, no other protocol."""
    return [
        *("-protocol_whitelist", "fd", "-format_whitelist", ",".join(demuxers)),
        *("-fd", str(fd), "-i", "fd:"),
    ]


def is_cut_ogg(source: Path) -> bool:
    """Ogg has no length of its own, so a cut-off file only shows in its last page: it promises more than follows."""
    with opened(source) as fd:
        size = os.fstat(fd).st_size
        tail = os.pread(fd, OGG_PAGE_MOST, max(0, size - OGG_PAGE_MOST))
    page = tail.rfind(b"OggS")
    if page < 0:
        return True
    if len(tail) < page + OGG_HEADER:
        return True
    segments = tail[page + OGG_HEADER - 1]
    lacing = tail[page + OGG_HEADER : page + OGG_HEADER + segments]
    return len(lacing) < segments or len(tail) < page + OGG_HEADER + segments + sum(lacing)


def forgives_errors(source: Path, form: str) -> bool:
    """Formats without a frame around the whole: junk between or after the frames is common there, and every player
    passes over it. A WAV that was written into a pipe does not know its end and always looks cut off.
    """
    return form in ("mp3", "aac") or (form == "wav" and _is_streamed_wav(source))


def _is_streamed_wav(source: Path) -> bool:
    with opened(source) as fd:
        head = os.pread(fd, WAV_HEAD, 0)
    data = head.find(b"data")
    return data >= 0 and head[data + 4 : data + 8] == b"\xff\xff\xff\xff"
