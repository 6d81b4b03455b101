"""The arguments of ffmpeg, without running it."""

from __future__ import annotations

import pytest

from euterpe.transcode.media import command
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.source import DEMUXERS, input_options
from euterpe.transcode.media.kinds.loudness import Correction, Measured
from euterpe.transcode.media.probing.info import MediaStream
from euterpe.transcode.media.span import TimeSpan
from euterpe.transcode.schema.outputs import AudioSettings, Loudness
from euterpe.transcode.schema.presets import AUDIO_PRESETS, VIDEO_PRESETS

WHOLE = TimeSpan(start_ms=0, end_ms=None, length_ms=10_000, exact=True)
PART = TimeSpan(start_ms=1500, end_ms=4000, length_ms=2500, exact=True, fade_in_ms=100, fade_out_ms=500)


def sound(**more: object) -> MediaStream:
    values: dict[str, object] = {"sample_rate": 44100, "channels": 2, "bits": 16, **more}
    return MediaStream(index=0, kind="audio", codec="flac", **values)  # type: ignore[arg-type]  # a test's own shorthand


def options(preset: str, source: MediaStream, span: TimeSpan = WHOLE, **settings: int) -> str:
    return " ".join(command.sound_options(AUDIO_PRESETS[preset], AudioSettings(**settings), source, span))


def test_a_plain_output_has_no_filter_that_could_touch_a_sample() -> None:
    assert options("flac", sound()) == "-c:a flac -compression_level 5 -sample_fmt s16 -ar 44100"
    assert options("wav_24", sound(bits=24)) == "-c:a pcm_s24le -ar 44100"
    assert options("mp3_320", sound()) == "-c:a libmp3lame -b:a 320k -ar 44100"
    assert options("mp3_v0", sound()) == "-c:a libmp3lame -q:a 0 -ar 44100"


def test_a_bit_rate_of_the_request_replaces_the_quality_of_the_preset() -> None:
    assert "-b:a 200k" in options("mp3_v0", sound(), bitrate_kbps=200)
    assert "-q:a" not in options("mp3_v0", sound(), bitrate_kbps=200)


def test_a_part_is_cut_first_and_faded_in_its_own_time() -> None:
    assert options("mp3_320", sound(), PART).startswith(
        "-filter:a atrim=start=1.500:end=4.000,asetpts=PTS-STARTPTS,"
        "afade=t=in:st=0:d=0.100,afade=t=out:st=2.000:d=0.500 "
    )


@pytest.mark.parametrize(
    ("preset", "rate", "chosen"),
    [
        ("mp3_320", 96000, 48000),
        ("mp3_320", 88200, 44100),
        ("mp3_320", 192000, 48000),
        ("mp3_320", 7000, 8000),
        ("aac_256", 176400, 44100),
        ("opus_96", 44100, 48000),
        ("flac", 192000, 192000),
        ("flac", 384000, 384000),
        ("flac", 768000, 384000),
        ("ogg_q5", 32000, 32000),
    ],
)
def test_a_rate_that_does_not_fit_becomes_the_nearest_of_its_family(preset: str, rate: int, chosen: int) -> None:
    assert command.chosen_rate(AUDIO_PRESETS[preset], AudioSettings(), sound(sample_rate=rate)) == chosen


def test_dither_comes_where_bits_are_lost_and_nowhere_else() -> None:
    assert "dither" not in options("wav_16", sound(bits=16))
    assert "osf=s16:dither_method=triangular" in options("wav_16", sound(bits=24))
    assert "osf=s16:dither_method=triangular" in options("flac", sound(bits=None))
    assert "dither" not in options("flac_24", sound(bits=24))


def test_loudness_is_one_gain_where_the_peak_has_room() -> None:
    target = Loudness(target_lufs=-14, true_peak_dbtp=-1)
    quiet = Correction(target, Measured(-20.0, -8.0))
    assert (quiet.mode, quiet.filters(44100)) == ("linear", ["volume=6.00dB:precision=float"])
    loud = Correction(target, Measured(-20.0, -6.9))
    assert loud.mode == "dynamic"
    assert [each.partition("=")[0] for each in loud.filters(44100)] == [
        *("volume", "aresample", "alimiter", "aresample"),
    ]


@pytest.mark.parametrize(
    ("size", "preset", "fitted"),
    [
        ((1920, 1080), "h264_720p", (1280, 720)),
        ((1080, 1920), "h264_720p", (720, 1280)),
        ((641, 361), "h264_1080p", (640, 360)),
        ((4000, 1000), "h264_480p", (1920, 480)),
        ((3, 1), "h264_480p", (4, 2)),
    ],
)
def test_a_picture_fits_by_its_shorter_side_and_is_even(
    size: tuple[int, int], preset: str, fitted: tuple[int, int]
) -> None:
    stream = MediaStream(index=0, kind="video", codec="h264", width=size[0], height=size[1])
    assert command.fitted_size(stream, VIDEO_PRESETS[preset].height) == fitted
    assert f"scale={fitted[0]}:{fitted[1]}:" in " ".join(
        command.picture_options(VIDEO_PRESETS[preset], stream, WHOLE, MediaLimits())
    )


def test_the_source_can_open_nothing_but_its_descriptor() -> None:
    words = input_options(7)
    assert words[words.index("-protocol_whitelist") + 1] == "fd"
    assert words[-4:] == ["-fd", "7", "-i", "fd:"]
    opening_others = {"concat", "hls", "dash", "image2", "sdp", "rtsp", "lavfi", "imf", "tty", "webm_dash_manifest"}
    assert not opening_others & set(",".join(DEMUXERS).split(","))
