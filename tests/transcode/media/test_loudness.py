"""Loudness: two passes, the target met in what is heard, the mode told, silence left alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media


def integrated_lufs(media: Media, path: Path) -> tuple[float, float]:
    """By another filter than the one that did the work: integrated loudness and true peak."""
    command = [str(media.tools.ffmpeg), "-hide_banner", "-i", str(path), "-af", "ebur128=peak=true", "-f", "null", "-"]
    said = subprocess.run(command, capture_output=True, check=True).stderr.decode()
    summary = said[said.rindex("Summary:") :]
    lufs, peak = re.search(r"I:\s+(-?[\d.]+) LUFS", summary), re.search(r"Peak:\s+(-?[\d.]+) dBFS", summary)
    assert lufs is not None
    assert peak is not None
    return float(lufs.group(1)), float(peak.group(1))


def loud(name: str, preset: str, target: float) -> dict[str, object]:
    return {"id": name, "kind": "audio", "preset": preset, "loudness": {"target_lufs": target, "true_peak_dbtp": -1}}


async def test_every_output_meets_its_own_target_within_one_unit(run: Encode, media: Media) -> None:
    source = media.noise("noise9.wav", seconds=9)
    wanted = [
        ("quiet", "mp3_320", -23.0),
        ("usual", "aac_256", -16.0),
        ("loud", "flac", -14.0),
        ("opus", "opus_160", -18),
    ]
    made = await run(source, *(loud(*each) for each in wanted), {"id": "as_is", "kind": "audio", "preset": "flac"})
    for output, (_, _, target) in zip(made[:-1], wanted, strict=True):
        measured, peak = integrated_lufs(media, output.files[0].path)
        assert measured == pytest.approx(target, abs=1.0), output.id
        assert peak <= -0.5, output.id
        assert output.loudness is not None
        assert output.loudness.output_lufs == pytest.approx(target, abs=1.0)
        assert output.loudness.input_lufs == pytest.approx(integrated_lufs(media, source)[0], abs=0.5)
    assert made[-1].loudness is None
    assert media.samples_md5(made[-1].files[0].path, "s16le") == media.samples_md5(source, "s16le")


async def test_one_gain_is_enough_where_the_peak_has_room_and_the_rate_is_the_sources(
    run: Encode, media: Media
) -> None:
    """A steady tone has a loudness range of 0, which alone must not turn the filter dynamic."""
    source = media.tone("tone4.wav", seconds=4)
    (made,) = await run(source, loud("x", "wav_24", -20.0))
    assert made.loudness is not None
    assert made.loudness.mode == "linear"
    assert made.sample_rate == 44100
    assert integrated_lufs(media, made.files[0].path)[0] == pytest.approx(-20, abs=0.5)


async def test_a_target_that_one_gain_cannot_hold_is_met_dynamically_and_said_so(run: Encode, media: Media) -> None:
    source = media.make(
        "peaky.wav", "-f", "lavfi", "-i", "aevalsrc='0.05*sin(440*2*PI*t)+0.9*lt(mod(t,1),0.001)':d=6:s=48000"
    )
    (made,) = await run(source, loud("x", "flac", -14.0))
    assert made.loudness is not None
    assert made.loudness.mode == "dynamic"
    assert integrated_lufs(media, made.files[0].path)[1] <= -0.5


async def test_silence_is_left_as_it_is(run: Encode, media: Media) -> None:
    source = media.make("silence.wav", "-f", "lavfi", "-i", "anullsrc=r=44100:cl=stereo", "-t", "2")
    (made,) = await run(source, loud("x", "wav_16", -14.0))
    assert made.loudness is not None
    assert (made.loudness.mode, made.loudness.input_lufs) == ("skipped", None)
    assert made.warnings == ("loudness_skipped_silence",)
    assert set(media.samples(made.files[0].path)) == {0}


async def test_what_counts_is_the_loudness_of_the_part_and_the_channels_that_are_heard(
    run: Encode, media: Media
) -> None:
    source = media.noise("noise9.wav", seconds=9)
    part = {**loud("part", "flac", -20.0), "trim": {"start_ms": 3500, "end_ms": 5500}}
    surround = media.tone("loud51.wav", "-af", "pan=5.1|c0=c0|c1=c1|c2=c0|c3=0*c0|c4=c0|c5=c1", seconds=4, rate=48000)
    (made,) = await run(source, part)
    assert integrated_lufs(media, made.files[0].path)[0] == pytest.approx(-20, abs=1.0)
    (mixed,) = await run(surround, loud("mixed", "mp3_320", -18.0))
    assert mixed.channels == 2
    assert integrated_lufs(media, mixed.files[0].path)[0] == pytest.approx(-18, abs=1.0)
