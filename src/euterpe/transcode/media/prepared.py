"""An output before it is encoded: checked against its source, with what it will take over and from which part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from euterpe.transcode.media.command import chosen_rate, is_enlarged, keeps_channels
from euterpe.transcode.media.errors import MediaError, bad_output, bad_source
from euterpe.transcode.media.ffmpeg.source import DECODERS
from euterpe.transcode.media.kinds.loudness import Correction, Measured
from euterpe.transcode.media.kinds.tags import wanted_chapters, wanted_tags
from euterpe.transcode.media.kinds.thumbnail import pictured_stream
from euterpe.transcode.media.probing.info import Chapter, MediaInfo, MediaStream
from euterpe.transcode.media.span import TimeSpan, span_of
from euterpe.transcode.schema.outputs import (
    AudioOutput,
    HlsOutput,
    Loudness,
    Output,
    ThumbnailOutput,
    VideoOutput,
    WaveformOutput,
)
from euterpe.transcode.schema.presets import AUDIO_PRESETS, VIDEO_PRESETS

PICTURES = frozenset({"mjpeg", "png", "bmp", "gif", "webp", "tiff"})


@dataclass(slots=True)
class Prepared:
    number: int
    output: Output
    span: TimeSpan
    warnings: list[str]
    tags: dict[str, str] = field(default_factory=dict)
    chapters: tuple[Chapter, ...] = ()
    covers: tuple[MediaStream, ...] = ()
    variants: tuple[str, ...] = ()
    """Presets of an HLS ladder that this source can fill."""
    measured: Measured | None = None
    boost: float = 0.0

    @property
    def folder(self) -> str:
        """Relative to the folder of the run. Names of the request are never shown to ffmpeg."""
        return str(self.number)

    @property
    def muxer(self) -> str:
        return AUDIO_PRESETS[self.output.preset].codec.muxer if isinstance(self.output, AudioOutput) else "mp4"

    @property
    def loudness(self) -> Loudness | None:
        return None if isinstance(self.output, WaveformOutput | ThumbnailOutput) else self.output.loudness

    @property
    def correction(self) -> Correction | None:
        target = self.loudness
        if target is None or self.measured is None or self.measured.silent:
            return None
        return Correction(target, self.measured, self.boost)


def prepare(outputs: Sequence[Output], info: MediaInfo) -> list[Prepared]:
    """Raises MediaError `output.*` for the first that this source cannot give, before any work is done."""
    for stream in (info.audio, info.video):
        if stream is not None and stream.codec not in DECODERS:
            raise bad_source("not_supported", f"the source is coded as {stream.codec}, which is not decoded here")
    return [_prepare(number, output, info) for number, output in enumerate(outputs)]


def check_segments(prepared: Sequence[Prepared], most: int) -> None:
    """Raises MediaError `output.too_many_segments`. Each segment is a file to write, to hash and to upload."""
    count = sum(
        len(each.variants) * math.ceil(each.span.length_ms / 1000 / each.output.segment_seconds)
        for each in prepared
        if isinstance(each.output, HlsOutput) and each.span.length_ms is not None
    )
    if count > most:
        raise too_many_segments(count, most)


def too_many_segments(count: int, most: int) -> MediaError:
    message = f"the HLS outputs have {count} segments, and {most} are allowed: use longer segments or fewer variants"
    return bad_output("too_many_segments", message)


def _prepare(number: int, output: Output, info: MediaInfo) -> Prepared:
    if isinstance(output, ThumbnailOutput):
        pictured_stream(output, info)
        return Prepared(number, output, TimeSpan(start_ms=0, end_ms=None, length_ms=None, exact=False), [])
    variants, warnings = _ladder(output, info) if isinstance(output, HlsOutput) else ((), [])
    picture = isinstance(output, VideoOutput) or any(name in VIDEO_PRESETS for name in variants)
    if isinstance(output, VideoOutput):
        if info.video is None:
            raise bad_output("no_video", "the source has no video", output.id)
        if is_enlarged(info.video, VIDEO_PRESETS[output.preset]):
            warnings.append("not_enlarged")
    elif not picture and info.audio is None:
        raise bad_output("no_audio", "the source has no sound", output.id)
    ladder = isinstance(output, HlsOutput)
    if isinstance(output, AudioOutput) and info.audio is not None:
        warnings += _changes(output, info.audio)
    span, more = span_of(output.trim, info, picture=picture, output_id=output.id, ladder=ladder)
    prepared = Prepared(number, output, span, [*warnings, *more], variants=variants)
    if isinstance(output, AudioOutput | VideoOutput):
        prepared.tags = wanted_tags(output.tags, info)
        prepared.chapters = wanted_chapters(output.tags, info, span)
    if isinstance(output, AudioOutput) and output.cover == "copy":
        prepared.covers = tuple(cover for cover in info.covers if cover.codec in PICTURES and cover.width)
        if len(prepared.covers) < len(info.covers):
            prepared.warnings.append("cover_unreadable")
    return prepared


def _changes(output: AudioOutput, source: MediaStream) -> list[str]:
    """What a lossless output cannot keep of its source is refused, or said."""
    preset = AUDIO_PRESETS[output.preset]
    if not keeps_channels(preset, output.audio, source):
        layout = source.channel_layout
        message = f"{preset.codec.name} has no place for the channels {layout}; choose another preset, or set channels"
        raise bad_output("channels_not_supported", message, output.id)
    rate = chosen_rate(preset, output.audio, source)
    lowered = preset.codec.lossless and output.audio.sample_rate is None and rate < (source.sample_rate or 0)
    return ["sample_rate_lowered"] if lowered else []


def _ladder(output: HlsOutput, info: MediaInfo) -> tuple[tuple[str, ...], list[str]]:
    """Without rungs that are larger than the source, but for the smallest of them if nothing else shows the picture."""
    presets = [variant.preset for variant in output.variants]
    sound = [name for name in presets if name not in VIDEO_PRESETS and info.audio is not None]
    video = [name for name in presets if name in VIDEO_PRESETS and info.video is not None]
    picture = [name for name in video if info.video is not None and not is_enlarged(info.video, VIDEO_PRESETS[name])]
    if video and not picture:
        picture = [min(video, key=lambda name: VIDEO_PRESETS[name].height)]
    kept = tuple(name for name in presets if name in sound or name in picture)
    if not kept:
        raise bad_output("no_variant", "the source has nothing that a variant asks for", output.id)
    return kept, [f"variant_left_out:{name}" for name in presets if name not in kept]
