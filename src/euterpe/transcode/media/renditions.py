"""Every output as the arguments that make ffmpeg write it; all of one source go into one command and one decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from euterpe.transcode.media import command
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import Pipe
from euterpe.transcode.media.kinds import hls
from euterpe.transcode.media.kinds.waveform import Peaks, read_peaks
from euterpe.transcode.media.prepared import Prepared
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.schema.outputs import AudioOutput, AudioSettings, HlsOutput, VideoOutput, WaveformOutput
from euterpe.transcode.schema.presets import AUDIO_PRESETS, VIDEO_PRESETS

FILE = "media"
"""What the file of an output is called while it is made."""
FINEST_PIXEL = 64
"""Samples of a column of a picture, before its length is known."""


@dataclass(slots=True)
class Rendition:
    prepared: Prepared
    arguments: list[str]
    peaks: Peaks | None = None
    pipe: Pipe | None = None


def rendition(
    prepared: Prepared, info: MediaInfo, metadata_inputs: Mapping[int, int], limits: MediaLimits
) -> Rendition:
    """`metadata_inputs` says which input of the command holds the tags of an output."""
    output = prepared.output
    tagged = command.metadata_options(metadata_inputs.get(prepared.number))
    match output:
        case AudioOutput():
            return _audio(prepared, output, info, tagged)
        case VideoOutput():
            return _video(prepared, output, info, tagged, limits)
        case HlsOutput():
            return _hls(prepared, output, info, limits)
        case WaveformOutput():
            return _waveform(prepared, output, info)
        case _:
            raise AssertionError("a thumbnail is made by a command of its own")


def file_of(prepared: Prepared, folder: Path) -> Path:
    return folder / prepared.folder / FILE


def _audio(prepared: Prepared, output: AudioOutput, info: MediaInfo, tagged: list[str]) -> Rendition:
    assert info.audio is not None
    preset = AUDIO_PRESETS[output.preset]
    correction = prepared.correction
    arguments = [
        *("-map", f"0:{info.audio.index}"),
        *command.sound_options(preset, output.audio, info.audio, prepared.span, correction),
        *command.cover_options(preset.codec.muxer, prepared.covers),
        *tagged,
        *command.container_options(preset, command.chosen_rate(preset, output.audio, info.audio)),
        f"{prepared.folder}/{FILE}",
    ]
    return Rendition(prepared, arguments)


def _video(
    prepared: Prepared, output: VideoOutput, info: MediaInfo, tagged: list[str], limits: MediaLimits
) -> Rendition:
    assert info.video is not None
    preset = VIDEO_PRESETS[output.preset]
    correction = prepared.correction
    sound = (
        command.sound_options(preset.audio, output.audio, info.audio, prepared.span, correction) if info.audio else []
    )
    arguments = [
        *command.video_source_map(info),
        *command.picture_options(preset, info.video, prepared.span, limits),
        *sound,
        *tagged,
        *("-movflags", "+faststart", "-f", "mp4", f"{prepared.folder}/{FILE}"),
    ]
    return Rendition(prepared, arguments)


def _hls(prepared: Prepared, output: HlsOutput, info: MediaInfo, limits: MediaLimits) -> Rendition:
    arguments: list[str] = []
    for name in prepared.variants:
        video = VIDEO_PRESETS.get(name)
        sound = video.audio if video else AUDIO_PRESETS[name]
        if video is not None:
            assert info.video is not None
            arguments += command.video_source_map(info)
            arguments += command.picture_options(video, info.video, prepared.span, limits)
            arguments += hls.keyframe_options(output.segment_seconds)
        elif info.audio is not None:
            arguments += ["-map", f"0:{info.audio.index}"]
        if info.audio is not None:
            arguments += command.sound_options(sound, AudioSettings(), info.audio, prepared.span, prepared.correction)
        arguments += command.metadata_options(None)
        arguments += hls.muxer_options(f"{prepared.folder}/{name}", output.segment_seconds)
    return Rendition(prepared, arguments)


def _waveform(prepared: Prepared, output: WaveformOutput, info: MediaInfo) -> Rendition:
    assert info.audio is not None
    channels = (info.audio.channels or 1) if output.split_channels else 1
    peaks = (
        Peaks(channels, output.samples_per_pixel)
        if output.format == "json"
        else Peaks(channels, FINEST_PIXEL, merge=True)
    )
    pipe = Pipe(lambda fd: read_peaks(fd, peaks))
    filters = command.sound_filters(prepared.span)
    arguments = [
        *("-map", f"0:{info.audio.index}"),
        *(["-filter:a", ",".join(filters)] if filters else []),
        *("-c:a", "pcm_s16le", "-ac", str(channels), "-ar", str(info.audio.sample_rate or 44100)),
        *("-f", "s16le", f"pipe:{pipe.write_fd}"),
    ]
    return Rendition(prepared, arguments, peaks=peaks, pipe=pipe)
