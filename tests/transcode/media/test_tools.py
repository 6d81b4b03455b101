"""Which programs are used, what an exit means, and that both probers say the same."""

from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.encode import encode
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.exit_codes import EXIT_CODES, after_crash, error_for_exit
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools, find_tools
from euterpe.transcode.media.probing.info import MediaInfo, MediaStream
from euterpe.transcode.media.probing.probe import probe
from euterpe.transcode.schema.checking import read_outputs
from tests.transcode.media.making import Media


def program(path: Path, first_line: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{first_line}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_variable_goes_before_the_path_and_the_path_before_the_wheel(tmp_path: Path) -> None:
    named = program(tmp_path / "my-ffmpeg", "ffmpeg version 7.1-mine Copyright")
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder / "ffmpeg", "ffmpeg version n8.0 Copyright")
    beside = program(folder / "ffprobe", "ffprobe version n8.0 Copyright")
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    found = find_tools({"EUTERPE_FFMPEG": str(named), **path})
    assert (found.ffmpeg, found.version) == (named, "7.1-mine")
    found = find_tools(path)
    assert (found.ffmpeg, found.ffprobe, found.version) == (folder / "ffmpeg", beside, "n8.0")
    found = find_tools({"PATH": "/nonexistent"})
    assert found.ffmpeg.name.startswith("ffmpeg-")
    assert found.ffmpeg.parent.parent.name == "imageio_ffmpeg"


def test_an_ffmpeg_that_is_too_old_is_passed_over_for_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = program(tmp_path / "ffmpeg", "ffmpeg version 5.1.6-0+deb12u1 Copyright")
    with caplog.at_level("WARNING", "euterpe.transcode"):
        found = find_tools({"PATH": f"{tmp_path}:/nonexistent"})
    assert found.ffmpeg.parent.parent.name == "imageio_ffmpeg"
    assert [(record.message, vars(record)["place"]) for record in caplog.records] == [
        ("an ffmpeg that is too old or does not run was passed over", str(old))
    ]
    newer = tmp_path / "newer"
    newer.mkdir()
    program(newer / "ffmpeg", "ffmpeg version n8.0 Copyright")
    assert find_tools({"PATH": f"{tmp_path}:{newer}"}).ffmpeg == newer / "ffmpeg"


@pytest.mark.parametrize("line", ["ffmpeg version 4.4.2 Copyright", "hello"])
def test_a_program_that_is_too_old_or_none_is_refused_with_a_way_out(tmp_path: Path, line: str) -> None:
    old = program(tmp_path / "ffmpeg", line)
    with pytest.raises(MediaError) as caught:
        find_tools({"EUTERPE_FFMPEG": str(old), "PATH": "/usr/bin:/bin"})
    assert (caught.value.code, caught.value.category) == ("tools.missing", Category.SYSTEM)


def test_a_variable_that_names_nothing_is_said_so() -> None:
    with pytest.raises(MediaError, match="EUTERPE_FFMPEG names no program"):
        find_tools({"EUTERPE_FFMPEG": "/nonexistent/ffmpeg"})


def test_an_ffprobe_that_cannot_read_descriptors_is_passed_over(tmp_path: Path) -> None:
    new = program(tmp_path / "ffmpeg", "ffmpeg version 7.0 Copyright")
    program(tmp_path / "ffprobe", "ffprobe version 4.4 Copyright")
    found = find_tools({"EUTERPE_FFMPEG": str(new), "PATH": "/nonexistent"})
    assert found.ffprobe != tmp_path / "ffprobe"


def test_no_package_that_brings_or_downloads_programs_is_ever_imported() -> None:
    code = (
        "import sys; from euterpe.transcode.media.ffmpeg.tools import find_tools; find_tools();"
        "print([name for name in ('av', 'ffmpeg', 'imageio_ffmpeg', 'patoolib', 'requests') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("exit_code", "code", "category"),
    [
        (183, "media.invalid_data", Category.PERMANENT),
        (8, "media.not_supported", Category.PERMANENT),
        (234, "encode.invalid_argument", Category.PERMANENT),
        (228, "encode.disk_full", Category.SYSTEM),
        (244, "encode.out_of_memory", Category.SYSTEM),
        (251, "encode.io_error", Category.SYSTEM),
        (187, "encode.unknown", Category.TEMPORARY),
        (229, "output.too_large", Category.PERMANENT),
        (255, "encode.not_permitted", Category.SYSTEM),
        (1, "encode.failed", Category.TEMPORARY),
    ],
)
def test_an_exit_code_has_a_meaning(exit_code: int, code: str, category: Category) -> None:
    error = error_for_exit(exit_code)
    assert (error.code, error.category, error.exit_code) == (code, category, exit_code)
    assert error.retryable == (category is not Category.PERMANENT)


def test_a_failure_without_a_reason_is_worth_one_retry() -> None:
    assert error_for_exit(187).retries == 1
    assert error_for_exit(228).retries is None
    assert all(meaning.message for meaning in EXIT_CODES.values())


def test_the_same_signal_twice_is_the_fault_of_the_source() -> None:
    error = error_for_exit(-11)
    assert (error.code, error.category, error.signal) == ("encode.crashed", Category.SYSTEM, 11)
    assert after_crash(error, None) is error
    assert after_crash(error, 6) is error
    again = after_crash(error, 11)
    assert (again.code, again.category) == ("media.crashes_decoder", Category.PERMANENT)
    assert after_crash(error_for_exit(183), 11).code == "media.invalid_data"


@pytest.mark.parametrize(
    "name",
    ["mp3.mp3", "aac.m4a", "flac.flac", "opus.opus", "wav.wav", "aiff.aiff", "video.mp4", "upright.mp4", "hires.flac"],
)
async def test_ffprobe_and_pyav_say_the_same(
    name: str, media: Media, tools: Tools, ffprobe: Path, limits: MediaLimits
) -> None:
    source = _made(media, name)
    by_pyav = await probe(source, tools=tools, limits=limits)
    by_ffprobe = await probe(source, tools=replace(tools, ffprobe=ffprobe), limits=limits)
    assert _comparable(by_pyav) == _comparable(by_ffprobe)
    # An older ffprobe counts the delay and padding of an MP3 as sound.
    assert by_pyav.duration_ms == pytest.approx(by_ffprobe.duration_ms, abs=50 if name == "mp3.mp3" else 0)


async def test_every_kind_of_output_can_be_made_with_an_ffprobe_too(
    media: Media, tools: Tools, ffprobe: Path, limits: MediaLimits, workdir: Path
) -> None:
    outputs, problems = read_outputs(
        [
            {"id": "mp3", "kind": "audio", "preset": "mp3_320", "loudness": {"target_lufs": -20}},
            {"id": "opus", "kind": "audio", "preset": "opus_96"},
            {"id": "flac", "kind": "audio", "preset": "flac", "trim": {"start_ms": 100}},
            {"id": "video", "kind": "video", "preset": "h264_480p"},
            {"id": "hls", "kind": "hls", "variants": [{"preset": "aac_96"}, {"preset": "h264_480p"}]},
            {"id": "peaks", "kind": "waveform"},
            {"id": "picture", "kind": "waveform", "format": "png"},
            {"id": "thumb", "kind": "thumbnail", "at_ms": [500], "width": 64},
        ]
    )
    assert not problems
    both = replace(tools, ffprobe=ffprobe)
    made = await encode(media.video("video.mp4"), outputs, workdir, tools=both, limits=limits)
    assert [output.id for output in made] == [output.id for output in outputs]
    assert {output.id: output.codec for output in made} == {
        "mp3": "mp3",
        "opus": "opus",
        "flac": "flac",
        "video": "h264",
        "hls": "avc1.640015,mp4a.40.2",
        "peaks": None,
        "picture": None,
        "thumb": "mjpeg",
    }


def _made(media: Media, name: str) -> Path:
    match name:
        case "video.mp4":
            return media.video(name)
        case "upright.mp4":
            flat = media.video("flat.mp4", size="640x360", seconds=1)
            return media.make(name, "-display_rotation", "90", "-i", str(flat), "-c", "copy")
        case "hires.flac":
            return media.tone(name, "-sample_fmt", "s32", "-ar", "96000", rate=96000)
        case "aiff.aiff":
            return media.tagged(name, "-c:a", "pcm_s16be", "-write_id3v2", "1")
        case "opus.opus" | "wav.wav":
            return media.tagged(name, cover=False)
        case _:
            return media.tagged(name)


def _comparable(info: MediaInfo) -> MediaInfo:
    """Without what two versions of ffmpeg may count differently."""
    return replace(info, bit_rate=None, duration_ms=None, streams=tuple(_plain(stream) for stream in info.streams))


def _plain(stream: MediaStream) -> MediaStream:
    return replace(stream, bit_rate=None, duration_ms=None, channel_layout=None)
