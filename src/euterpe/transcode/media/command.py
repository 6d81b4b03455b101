"""The arguments of ffmpeg, out of options and a probe. Pure: nothing here starts or opens anything."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.kinds.loudness import Correction
from euterpe.transcode.media.kinds.tags import COVER_TYPES, COVERS_AS_STREAMS, MIME, cover_type
from euterpe.transcode.media.probing.info import MediaInfo, MediaStream
from euterpe.transcode.media.span import TimeSpan
from euterpe.transcode.schema.outputs import AudioSettings
from euterpe.transcode.schema.presets import AudioPreset, VideoPreset

GLOBAL = ("-hide_banner", "-nostats", "-y", "-progress", "pipe:1", "-stats_period", "0.25")
LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
ALAC_LAYOUTS = frozenset({"mono", "stereo", "3.0", "4.0", "5.0", "5.0(side)", "5.1", "5.1(side)", "6.1", "7.1(wide)"})
DSD_AS_PCM = 176400
"""Above this rate a DSD source holds little but the noise of its own making."""
STRICT = ("-xerror", "-err_detect", "explode")
"""Without these a source that breaks off in the middle is encoded as far as it goes, and called a success."""


def sound_options(
    preset: AudioPreset,
    settings: AudioSettings,
    source: MediaStream,
    span: TimeSpan,
    correction: Correction | None = None,
) -> list[str]:
    """Filters, encoder, rate and channels of one audio stream."""
    rate = chosen_rate(preset, settings, source)
    channels = chosen_channels(preset, settings, source)
    filters = sound_filters(span, channels if channels != source.channels else None, correction, rate)
    bits = chosen_bits(preset, source)
    if bits is not None and needs_dither(source, bits, filters):
        form = "s16" if bits == 16 else "s32:output_sample_bits=24"
        filters.append(f"aresample={rate}:osf={form}:dither_method=triangular")
    elif bits is None and channels > 2:
        filters += mixing_filters(channels)  # encoders know one layout for each number, such as 5.1 and not 5.1(side)
    options = ["-filter:a", ",".join(filters)] if filters else []
    options += ["-c:a", *preset.encoder, *_sample_format(preset, bits), *_bit_rate(preset, settings)]
    options += ["-ar", str(rate)]
    if channels != source.channels:
        options += ["-ac", str(channels)]
    return options


def sound_filters(
    span: TimeSpan, mix_to: int | None = None, correction: Correction | None = None, rate: int = 0
) -> list[str]:
    filters = cutting_filters(span)
    if correction is not None:
        filters += mixing_filters(mix_to)
        filters += correction.filters(rate)
    if span.fade_in_ms:
        filters.append(f"afade=t=in:st=0:d={seconds(span.fade_in_ms)}")
    if span.fade_out_ms and span.length_ms is not None:
        begin = max(0, span.length_ms - span.fade_out_ms)
        filters.append(f"afade=t=out:st={seconds(begin)}:d={seconds(span.fade_out_ms)}")
    return filters


def cutting_filters(span: TimeSpan) -> list[str]:
    """The part of the sound, from its first moment on: sound that begins late gets silence before it."""
    filters = []
    if not span.whole:
        end = "" if span.end_ms is None else f":end={seconds(span.end_ms)}"
        filters.append(f"atrim=start={seconds(span.start_ms)}{end}")
    if not span.whole or span.sound_late_ms:
        filters.append("asetpts=PTS-STARTPTS")
    if span.sound_late_ms:
        filters.append(f"adelay={span.sound_late_ms}:all=1")
    return filters


def mixing_filters(channels: int | None) -> list[str]:
    """Before loudness is measured or changed: what counts is the loudness of the channels that will be there."""
    layout = LAYOUTS.get(channels or 0)
    return [f"aformat=channel_layouts={layout}"] if layout else []


def chosen_rate(preset: AudioPreset, settings: AudioSettings, source: MediaStream) -> int:
    if settings.sample_rate is not None:
        return settings.sample_rate
    known = [rate for rate in preset.codec.sample_rates if rate <= preset.max_sample_rate]
    rate = source.sample_rate or 44100
    if is_dsd(source):
        rate = min(rate, DSD_AS_PCM)
    if rate in known:
        return rate
    if rate > known[-1]:
        return next((each for each in reversed(known) if rate % each == 0 and each >= 44100), known[-1])
    return next(each for each in known if each >= rate)


def chosen_channels(preset: AudioPreset, settings: AudioSettings, source: MediaStream) -> int:
    return settings.channels or min(source.channels or 2, preset.max_channels, preset.codec.max_channels)


def chosen_bits(preset: AudioPreset, source: MediaStream) -> int | None:
    """Bits of a sample of a lossless output. A lossy source has no depth of its own: 16 are enough for it."""
    if not preset.codec.lossless:
        return None
    return preset.bits or (24 if (source.bits or 16) > 16 or is_dsd(source) else 16)


def is_dsd(source: MediaStream) -> bool:
    """One bit at millions of samples a second, which a decoder turns into PCM of an eighth of that rate."""
    return source.codec.startswith("dsd_")


def needs_dither(source: MediaStream, bits: int, filters: Sequence[str]) -> bool:
    """Not where samples that fit come in and go out untouched: those stay bit for bit."""
    if source.bits is None:
        return bits == 16 or is_dsd(source)
    return bool(filters) or source.bits > bits


def keeps_channels(preset: AudioPreset, settings: AudioSettings, source: MediaStream) -> bool:
    """False where a lossless encoder would mix the source's channels into others without being asked to."""
    if preset.codec.name != "alac" or settings.channels is not None:
        return True
    return (source.channels or 2) <= 2 or source.channel_layout in ALAC_LAYOUTS


def _sample_format(preset: AudioPreset, bits: int | None) -> list[str]:
    if bits is None or preset.codec.name == "pcm":
        return []
    planar = "p" if preset.codec.name == "alac" else ""
    return ["-sample_fmt", f"{'s16' if bits == 16 else 's32'}{planar}"]


def _bit_rate(preset: AudioPreset, settings: AudioSettings) -> list[str]:
    kilobits = settings.bitrate_kbps or preset.bitrate_kbps
    if kilobits is not None:
        return ["-b:a", f"{kilobits}k"]
    return ["-q:a", preset.quality] if preset.quality is not None else []


def container_options(preset: AudioPreset, rate: int) -> list[str]:
    match preset.codec.muxer:
        case "mp3":
            return ["-id3v2_version", "3", "-write_xing", "1", "-f", "mp3"]
        case "ipod":
            # In samples, so that the edit list cuts the encoder's delay and padding to the sample.
            return ["-movie_timescale", str(rate), "-movflags", "+faststart", "-f", "ipod"]
        case "wav":
            return ["-rf64", "auto", "-f", "wav"]
        case muxer:
            return ["-f", muxer]


def metadata_options(metadata_input: int | None) -> list[str]:
    """Everything out of the file that we wrote; the source's own is never copied behind our back."""
    place = "-1" if metadata_input is None else str(metadata_input)
    return ["-map_metadata", place, "-map_metadata:s", "-1", "-map_chapters", place]


def cover_options(muxer: str, covers: Sequence[MediaStream]) -> list[str]:
    if muxer not in COVERS_AS_STREAMS:
        return []
    options: list[str] = []
    for number, cover in enumerate(covers):
        codec = ["copy"] if cover.codec in MIME else ["mjpeg", f"-pix_fmt:v:{number}", "yuvj420p"]
        options += ["-map", f"0:{cover.index}", f"-c:v:{number}", *codec]
        options += [f"-disposition:v:{number}", "attached_pic"]
        options += [f"-metadata:s:v:{number}", f"comment={COVER_TYPES[cover_type(cover)]}"]
    return options


def picture_options(preset: VideoPreset, source: MediaStream, span: TimeSpan, limits: MediaLimits) -> list[str]:
    """Filters and encoder of one video stream."""
    width, height = fitted_size(source, preset.height)
    filters = []
    if not span.whole:
        end = "" if span.end_ms is None else f":end={seconds(span.end_ms)}"
        late = f"+{seconds(span.picture_late_ms)}/TB" if span.picture_late_ms else ""
        filters += [f"trim=start={seconds(span.start_ms)}{end}", f"setpts=PTS-STARTPTS{late}"]
    filters += [f"scale={width}:{height}:flags=bicubic", "setsar=1", "format=yuv420p"]
    options = ["-filter:v", ",".join(filters), "-c:v", "libx264", "-preset", "veryfast", "-profile:v", "high"]
    options += ["-crf", str(preset.quality), "-maxrate", f"{preset.max_kbps}k", "-bufsize", f"{preset.max_kbps * 2}k"]
    return [*options, "-threads:v", str(limits.threads)] if limits.threads else options


def fitted_size(source: MediaStream, short_side: int) -> tuple[int, int]:
    """The shorter side brought to this many pixels and never made larger; both even, as 4:2:0 asks."""
    width, height = source.shown_size
    scale = min(1.0, short_side / max(1, min(width, height)))
    return max(2, round(width * scale / 2) * 2), max(2, round(height * scale / 2) * 2)


def is_enlarged(source: MediaStream, preset: VideoPreset) -> bool:
    return min(source.shown_size) < preset.height


def seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def video_source_map(info: MediaInfo) -> list[str]:
    assert info.video is not None
    sound = ["-map", f"0:{info.audio.index}"] if info.audio is not None else []
    return ["-map", f"0:{info.video.index}", *sound]
