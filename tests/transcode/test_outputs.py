"""What a request may ask for, and that everything wrong with it is said at once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from euterpe.transcode.schema.checking import names_of, read_output, read_outputs
from euterpe.transcode.schema.outputs import AudioOutput, HlsOutput, Output, ThumbnailOutput, kind_of
from euterpe.transcode.schema.presets import AUDIO_PRESETS, VIDEO_PRESETS

EXAMPLE: list[dict[str, Any]] = json.loads("""[
    {"id": "mp3", "kind": "audio", "preset": "mp3_320", "filename": "a.mp3",
     "audio": {"bitrate_kbps": 320, "sample_rate": 44100, "channels": 2},
     "loudness": {"target_lufs": -14, "true_peak_dbtp": -1},
     "trim": {"start_ms": 0, "end_ms": 30000, "fade_out_ms": 500},
     "tags": {"mode": "copy", "set": {"title": "X"}}, "cover": "copy"},
    {"id": "hls", "kind": "hls", "segment_seconds": 6, "variants": [{"preset": "aac_96"}, {"preset": "h264_720p"}]},
    {"id": "peaks", "kind": "waveform", "format": "json", "samples_per_pixel": 512},
    {"id": "img", "kind": "waveform", "format": "png", "width": 1800, "height": 280},
    {"id": "thumb", "kind": "thumbnail", "at_ms": [1000], "width": 640}]""")


def codes(raw: object) -> dict[str, str]:
    _, problems = read_output(raw)
    return {problem.pointer: problem.code for problem in problems}


def audio(**more: object) -> dict[str, object]:
    return {"id": "a", "kind": "audio", "preset": "mp3_320", **more}


def test_the_request_of_the_documentation_is_understood() -> None:
    outputs, problems = read_outputs(EXAMPLE)
    assert not problems
    assert [kind_of(output) for output in outputs] == [each["kind"] for each in EXAMPLE]
    assert [names_of(output) for output in outputs] == [
        ("a.mp3",),
        ("hls",),
        ("peaks.json",),
        ("img.png",),
        ("thumb.jpg",),
    ]


def test_outputs_survive_a_round_through_json() -> None:
    outputs, _ = read_outputs(EXAMPLE)
    stored = msgspec.json.encode(outputs)
    assert msgspec.json.decode(stored, type=tuple[Output, ...]) == outputs


@pytest.mark.parametrize("preset", AUDIO_PRESETS)
def test_every_audio_preset_can_be_asked_for_by_name_alone(preset: str) -> None:
    output, problems = read_output(audio(preset=preset))
    assert not problems
    assert isinstance(output, AudioOutput)


@pytest.mark.parametrize("preset", VIDEO_PRESETS)
def test_every_video_preset_can_be_asked_for_alone_and_in_a_ladder(preset: str) -> None:
    assert not codes({"id": "v", "kind": "video", "preset": preset})
    assert not codes({"id": "v", "kind": "hls", "variants": [{"preset": preset}]})


def test_all_problems_are_found_at_once_each_at_its_place() -> None:
    found = codes(
        {
            "id": "has space",
            "kind": "audio",
            "preset": "mp3_9000",
            "filename": "../up.mp3",
            "audio": {"bitrate_kbps": "many", "channels": 9, "rate": 1},
            "loudness": {"target_lufs": 3},
            "trim": {"start_ms": 10, "end_ms": 5},
            "tags": {"mode": "copy", "set": {"a/b=": "x"}},
            "colour": "red",
        }
    )
    assert found == {
        "/id": "invalid",
        "/preset": "unknown_preset",
        "/filename": "invalid_filename",
        "/audio/bitrate_kbps": "invalid",
        "/audio/channels": "invalid",
        "/audio/rate": "unknown_field",
        "/loudness/target_lufs": "invalid",
        "/trim/end_ms": "empty_range",
        "/tags/set/a~1b=": "invalid_tag",
        "/colour": "unknown_field",
    }


def test_problems_of_several_outputs_point_into_the_array() -> None:
    _, problems = read_outputs([audio(), {"id": "b"}, 7, {"id": "h", "kind": "hls", "variants": [{"preset": "flac"}]}])
    assert [(problem.pointer, problem.problem.code) for problem in problems] == [
        ("/1/kind", "unknown_kind"),
        ("/2", "unknown_kind"),
        ("/3/variants/0/preset", "unknown_preset"),
    ]


@pytest.mark.parametrize("raw", [None, {}, [], "x", [audio()] * 51])
def test_what_is_no_list_of_outputs_is_one_problem_of_the_whole(raw: object) -> None:
    outputs, problems = read_outputs(raw)
    assert not outputs
    assert [(problem.pointer, problem.problem.code) for problem in problems] == [("", "invalid")]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b.mp3", "/a.mp3", "..\\a.mp3", "a\\b.mp3", "a..mp3", ".mp3", ".a.mp3", "a\0.mp3", "a\n.mp3",
     "a\u202egpj.mp3", "x" * 200 + ".mp3"],
)  # fmt: skip
def test_a_file_name_is_plain(name: str) -> None:
    assert codes(audio(filename=name)) == {"/filename": "invalid_filename"}


@pytest.mark.parametrize(
    ("preset", "name"),
    [("mp3_320", "a.wav"), ("mp3_320", "mp3"), ("aac_96", "a.aac"), ("opus_96", "a.mp3"), ("flac", "a.flac.exe")],
)
def test_the_extension_fits_the_container(preset: str, name: str) -> None:
    assert codes(audio(preset=preset, filename=name)) == {"/filename": "wrong_extension"}


def test_names_are_unique_in_a_request_whatever_the_file_system_takes_for_equal() -> None:
    _, problems = read_outputs(
        [
            audio(filename="Song.mp3"),
            {**audio(filename="song.MP3"), "id": "b"},
            {"id": "t", "kind": "thumbnail", "at_ms": [0, 1], "filename": "t.jpg"},
            {"id": "u", "kind": "thumbnail", "at_ms": [0], "filename": "t-2.jpg"},
            {"id": "A", "kind": "waveform"},
        ]
    )
    assert [problem.pointer for problem in problems] == ["/1/filename", "/3/filename", "/4/id"]


@pytest.mark.parametrize(
    ("more", "place", "code"),
    [
        ({"audio": {"bitrate_kbps": 321}}, "/audio/bitrate_kbps", "out_of_range"),
        ({"audio": {"sample_rate": 96000}}, "/audio/sample_rate", "out_of_range"),
        ({"audio": {"channels": 6}}, "/audio/channels", "out_of_range"),
        ({"preset": "flac", "audio": {"bitrate_kbps": 320}}, "/audio/bitrate_kbps", "not_adjustable"),
        ({"preset": "opus_96", "audio": {"sample_rate": 44100}}, "/audio/sample_rate", "out_of_range"),
        ({"trim": {"start_ms": -1}}, "/trim/start_ms", "invalid"),
        ({"trim": {"end_ms": 100, "fade_in_ms": 60, "fade_out_ms": 60}}, "/trim", "fades_too_long"),
        ({"loudness": {"true_peak_dbtp": 1}}, "/loudness/true_peak_dbtp", "invalid"),
        ({"tags": {"set": {"x": "y\0"}}}, "/tags/set/x", "invalid_tag"),
        ({"tags": {"set": {str(n): "y" for n in range(101)}}}, "/tags/set", "too_many"),
        ({"cover": "paint"}, "/cover", "invalid"),
    ],
)
def test_an_option_that_its_codec_cannot_take_is_refused(more: dict[str, object], place: str, code: str) -> None:
    assert codes(audio(**more)) == {place: code}


def test_fields_that_another_layer_reads_are_passed_over() -> None:
    outputs, problems = read_outputs([audio(put_url="https://example.com/x")], ignore=["put_url"])
    assert len(outputs) == 1
    assert not problems


def test_several_times_make_several_names() -> None:
    output, _ = read_output({"id": "t", "kind": "thumbnail", "at_ms": [0, 5], "filename": "x.png", "format": "png"})
    assert isinstance(output, ThumbnailOutput)
    assert names_of(output) == ("x-1.png", "x-2.png")


def test_a_ladder_has_at_least_one_rung_and_no_rung_twice() -> None:
    assert codes({"id": "h", "kind": "hls", "variants": []}) == {"/variants": "invalid"}
    twice = {"id": "h", "kind": "hls", "variants": [{"preset": "aac_96"}, {"preset": "aac_96"}]}
    assert codes(twice) == {"/variants/1/preset": "not_unique"}
    output, _ = read_output({"id": "h", "kind": "hls", "variants": [{"preset": "aac_96"}]})
    assert isinstance(output, HlsOutput)
