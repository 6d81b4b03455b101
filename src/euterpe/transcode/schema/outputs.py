"""What a request may ask for: the `outputs` array, one struct a kind."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

OutputId: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=0, le=7 * 24 * 3_600_000)]
Colour: TypeAlias = Annotated[str, Meta(pattern=r"^#[0-9A-Fa-f]{6}([0-9A-Fa-f]{2})?\Z")]


class AudioSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the request changes of its preset."""

    bitrate_kbps: Annotated[int, Meta(ge=1)] | None = None
    sample_rate: Annotated[int, Meta(ge=1)] | None = None
    channels: Annotated[int, Meta(ge=1, le=8)] | None = None


class Loudness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    target_lufs: Annotated[float, Meta(ge=-70, le=-5)] = -14.0
    true_peak_dbtp: Annotated[float, Meta(ge=-9, le=0)] = -1.0


class Trim(Struct, frozen=True, kw_only=True, omit_defaults=True):
    start_ms: Milliseconds = 0
    end_ms: Milliseconds | None = None
    fade_in_ms: Milliseconds = 0
    fade_out_ms: Milliseconds = 0


class Tags(Struct, frozen=True, kw_only=True, omit_defaults=True):
    mode: Literal["copy", "strip"] = "copy"
    set: dict[str, str] = field(default_factory=dict)


class AudioOutput(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="audio"):
    id: OutputId
    preset: str
    filename: str | None = None
    audio: AudioSettings = AudioSettings()
    loudness: Loudness | None = None
    trim: Trim = Trim()
    tags: Tags = Tags()
    cover: Literal["copy", "strip"] = "copy"


class VideoOutput(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="video"):
    id: OutputId
    preset: str
    filename: str | None = None
    audio: AudioSettings = AudioSettings()
    loudness: Loudness | None = None
    trim: Trim = Trim()
    tags: Tags = Tags()


class Variant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    preset: str


class HlsOutput(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="hls"):
    """Its files lie in a folder with the name of its id; `master.m3u8` is the one to play."""

    id: OutputId
    variants: Annotated[tuple[Variant, ...], Meta(min_length=1, max_length=10)]
    segment_seconds: Annotated[int, Meta(ge=1, le=30)] = 6
    loudness: Loudness | None = None
    trim: Trim = Trim()


class WaveformOutput(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="waveform"):
    id: OutputId
    format: Literal["json", "png"] = "json"
    filename: str | None = None
    samples_per_pixel: Annotated[int, Meta(ge=16, le=65536)] = 512
    bits: Literal[8, 16] = 8
    split_channels: bool = False
    width: Annotated[int, Meta(ge=16, le=8192)] = 1800
    height: Annotated[int, Meta(ge=16, le=4096)] = 280
    color: Colour = "#3b82f6"
    background: Colour = "#ffffff00"
    trim: Trim = Trim()


class ThumbnailOutput(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="thumbnail"):
    """Frames of a video, or the cover of audio. Several times make several files: `name-1.jpg`, `name-2.jpg`."""

    id: OutputId
    at_ms: Annotated[tuple[Milliseconds, ...], Meta(min_length=1, max_length=50)] = (0,)
    filename: str | None = None
    format: Literal["jpg", "png"] = "jpg"
    width: Annotated[int, Meta(ge=16, le=4096)] | None = None
    height: Annotated[int, Meta(ge=16, le=4096)] | None = None


Output: TypeAlias = AudioOutput | VideoOutput | HlsOutput | WaveformOutput | ThumbnailOutput
KINDS: dict[str, type[Output]] = {
    "audio": AudioOutput,
    "video": VideoOutput,
    "hls": HlsOutput,
    "waveform": WaveformOutput,
    "thumbnail": ThumbnailOutput,
}


def kind_of(output: Output) -> str:
    return str(type(output).__struct_config__.tag)
