"""The presets as data: what each codec can do, and what a name such as `mp3_320` stands for."""

from __future__ import annotations

from dataclasses import dataclass

_COMMON_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_HIGH_RATES = (*_COMMON_RATES, 88200, 96000, 176400, 192000, 352800, 384000)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioCodec:
    name: str
    """As a probe says it; PCM's is told by its bits."""
    muxer: str
    extensions: tuple[str, ...]
    """The first is the default."""
    content_type: str
    bitrates_kbps: tuple[int, int] | None
    """From and to; None where a bit rate cannot be chosen."""
    sample_rates: tuple[int, ...]
    max_channels: int
    lossless: bool = False


MP3 = AudioCodec(
    name="mp3",
    muxer="mp3",
    extensions=("mp3",),
    content_type="audio/mpeg",
    bitrates_kbps=(32, 320),
    sample_rates=_COMMON_RATES,
    max_channels=2,
)
AAC = AudioCodec(
    name="aac",
    muxer="ipod",
    extensions=("m4a", "mp4"),
    content_type="audio/mp4",
    bitrates_kbps=(16, 512),
    sample_rates=(*_COMMON_RATES, 88200, 96000),
    max_channels=8,
)
OPUS = AudioCodec(
    name="opus",
    muxer="opus",
    extensions=("opus", "ogg"),
    content_type="audio/ogg; codecs=opus",
    bitrates_kbps=(6, 510),
    sample_rates=(48000,),  # whatever it is given, it codes 48 kHz
    max_channels=8,
)
VORBIS = AudioCodec(
    name="vorbis",
    muxer="ogg",
    extensions=("ogg", "oga"),
    content_type="audio/ogg; codecs=vorbis",
    bitrates_kbps=(45, 500),
    sample_rates=(*_COMMON_RATES, 88200, 96000, 176400, 192000),
    max_channels=8,
)
FLAC = AudioCodec(
    name="flac",
    muxer="flac",
    extensions=("flac",),
    content_type="audio/flac",
    bitrates_kbps=None,
    sample_rates=_HIGH_RATES,
    max_channels=8,
    lossless=True,
)
ALAC = AudioCodec(
    name="alac",
    muxer="ipod",
    extensions=("m4a", "mp4"),
    content_type="audio/mp4",
    bitrates_kbps=None,
    sample_rates=_HIGH_RATES,
    max_channels=8,
    lossless=True,
)
WAV = AudioCodec(
    name="pcm",
    muxer="wav",
    extensions=("wav",),
    content_type="audio/wav",
    bitrates_kbps=None,
    sample_rates=_HIGH_RATES,
    max_channels=8,
    lossless=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPreset:
    codec: AudioCodec
    encoder: tuple[str, ...]
    """The encoder and its own options; a bit rate comes from `bitrate_kbps`, or from the request."""
    bitrate_kbps: int | None = None
    quality: str | None = None
    """Quality of a variable bit rate, where the request names no bit rate."""
    bits: int | None = None
    """Lossless: the bits of a sample. None: those of the source, 16 or 24."""
    max_sample_rate: int = 48000
    """What a source with more is brought down to, unless the request says otherwise."""
    max_channels: int = 2
    """Likewise: 5.1 becomes stereo in a small file and stays 5.1 in a lossless one."""


def _lossless(codec: AudioCodec, *encoder: str, bits: int | None = None) -> AudioPreset:
    return AudioPreset(codec=codec, encoder=encoder, bits=bits, max_sample_rate=384000, max_channels=8)


_LAME = ("libmp3lame",)
_AAC = ("aac",)
_OPUS = ("libopus", "-vbr", "on")
_SPEECH = ("libopus", "-vbr", "on", "-application", "voip")

AUDIO_PRESETS: dict[str, AudioPreset] = {
    "mp3_v0": AudioPreset(codec=MP3, encoder=_LAME, quality="0"),
    "mp3_320": AudioPreset(codec=MP3, encoder=_LAME, bitrate_kbps=320),
    "mp3_192": AudioPreset(codec=MP3, encoder=_LAME, bitrate_kbps=192),
    "mp3_128": AudioPreset(codec=MP3, encoder=_LAME, bitrate_kbps=128),
    "aac_256": AudioPreset(codec=AAC, encoder=_AAC, bitrate_kbps=256),
    "aac_160": AudioPreset(codec=AAC, encoder=_AAC, bitrate_kbps=160),
    "aac_96": AudioPreset(codec=AAC, encoder=_AAC, bitrate_kbps=96),
    "opus_160": AudioPreset(codec=OPUS, encoder=_OPUS, bitrate_kbps=160),
    "opus_96": AudioPreset(codec=OPUS, encoder=_OPUS, bitrate_kbps=96),
    "opus_48_speech": AudioPreset(codec=OPUS, encoder=_SPEECH, bitrate_kbps=48, max_channels=1),
    "ogg_q5": AudioPreset(codec=VORBIS, encoder=("libvorbis",), quality="5"),
    "flac": _lossless(FLAC, "flac", "-compression_level", "5"),
    "flac_24": _lossless(FLAC, "flac", "-compression_level", "5", bits=24),
    "alac": _lossless(ALAC, "alac"),
    "wav_16": _lossless(WAV, "pcm_s16le", bits=16),
    "wav_24": _lossless(WAV, "pcm_s24le", bits=24),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoPreset:
    height: int
    """The shorter side of the picture, upright or not; a smaller source stays as it is."""
    quality: int
    max_kbps: int
    audio: AudioPreset

    @property
    def extensions(self) -> tuple[str, ...]:
        return ("mp4", "m4v")


VIDEO_PRESETS: dict[str, VideoPreset] = {
    "h264_1080p": VideoPreset(height=1080, quality=21, max_kbps=6000, audio=AUDIO_PRESETS["aac_160"]),
    "h264_720p": VideoPreset(height=720, quality=22, max_kbps=3500, audio=AUDIO_PRESETS["aac_160"]),
    "h264_480p": VideoPreset(height=480, quality=23, max_kbps=1600, audio=AUDIO_PRESETS["aac_96"]),
}

HLS_CODECS = frozenset({"aac"})
"""Audio in fMP4 segments that every player of HLS knows."""
