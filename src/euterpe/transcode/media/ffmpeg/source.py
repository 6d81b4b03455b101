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

# What may decode a source: for each codec, as a probe names it, the decoders of ffmpeg that do it.
DECODERS: dict[str, tuple[str, ...]] = {
    **{
        name: (name,)
        for name in (
            *("aac", "aac_latm", "ac3", "eac3", "alac", "ape", "flac", "mlp", "truehd", "tak", "tta", "wavpack"),
            *("dsd_lsbf", "dsd_msbf", "dsd_lsbf_planar", "dsd_msbf_planar", "wmav1", "wmav2", "wmapro"),
            *("wmalossless", "wmavoice", "mace3", "mace6", "nellymoser", "gsm", "gsm_ms"),
            *("adpcm_ms", "adpcm_ima_wav", "adpcm_ima_qt", "adpcm_swf", "adpcm_yamaha"),
            *("pcm_alaw", "pcm_mulaw", "pcm_bluray", "pcm_dvd", "pcm_s8", "pcm_s8_planar", "pcm_u8"),
            *(f"pcm_{kind}{bits}{end}" for kind in "su" for bits in (16, 24, 32) for end in ("le", "be")),
            *(f"pcm_{kind}{end}" for kind in ("f32", "f64", "s64") for end in ("le", "be")),
            *("pcm_s16le_planar", "pcm_s16be_planar", "pcm_s24le_planar", "pcm_s32le_planar"),
            *("h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v1", "msmpeg4v2", "h263", "vp6", "vp6a"),
            *("vp6f", "theora", "vc1", "wmv1", "wmv2", "wmv3", "mjpeg", "prores", "dnxhd", "dvvideo", "ffv1"),
            *("huffyuv", "rawvideo", "svq1", "svq3", "cinepak", "png", "bmp", "gif", "webp", "tiff"),
        )
    },
    "amr_nb": ("amrnb", "libopencore_amrnb"),
    "amr_wb": ("amrwb", "libopencore_amrwb"),
    "av1": ("libdav1d", "av1", "libaom-av1"),
    "dts": ("dca",),
    "flv1": ("flv",),
    "mp1": ("mp1float", "mp1"),
    "mp2": ("mp2float", "mp2"),
    "mp3": ("mp3float", "mp3"),
    "msmpeg4v3": ("msmpeg4",),
    "musepack7": ("mpc7",),
    "musepack8": ("mpc8",),
    "opus": ("opus", "libopus"),
    "speex": ("speex", "libspeex"),
    "vorbis": ("vorbis", "libvorbis"),
    "vp8": ("vp8", "libvpx"),
    "vp9": ("vp9", "libvpx-vp9"),
}
ALLOWED_DECODERS = ",".join(decoder for decoders in DECODERS.values() for decoder in decoders)


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
    """What stands before `-i`: this descriptor, these formats and decoders, no other protocol."""
    return [
        *("-protocol_whitelist", "fd", "-format_whitelist", ",".join(demuxers)),
        *("-codec_whitelist", ALLOWED_DECODERS),
        *("-fd", str(fd), "-i", "fd:"),
    ]
