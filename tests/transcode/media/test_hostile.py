"""Hostile files: a typed error each; nothing opened, nobody called, nothing written, nothing left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.encode import encode
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.schema.checking import read_outputs
from tests.transcode.media.canaries import Canaries
from tests.transcode.media.hostile import blobs, broken, png, scripts
from tests.transcode.media.making import Media, listed

SCRIPTS = sorted(scripts(Path("x"), 1))
BLOBS = sorted(blobs())
BROKEN = (
    *("cut.wav", "cut.flac", "spoilt.flac", "cut.mp3", "cut.m4a", "cut_faststart.m4a", "cut.ogg", "cut.opus"),
    *("cut.aiff", "cut.mkv", "cut_video.mp4", "cut_video.mkv", "header_only.flac", "flipped.flac"),
)
assert len(SCRIPTS) + len(BLOBS) + len(BROKEN) >= 40
FAMILIES = ("media.", "encode.", "output.")


@pytest.fixture(scope="module")
def spoilt(media: Media) -> dict[str, bytes]:
    return broken(media)


@pytest.fixture
def canaries(media: Media, tmp_path: Path) -> Iterator[Canaries]:
    folder = tmp_path / "source"
    folder.mkdir()
    file = folder / "canary.wav"
    file.write_bytes(media.tone("canary.wav").read_bytes())
    with Canaries(file) as canaries:
        yield canaries


async def refused(source: Path, workdir: Path, tools: Tools, limits: MediaLimits) -> MediaError:
    before = listed(source.parent)
    outputs, problems = read_outputs(
        [
            {"id": "a", "kind": "audio", "preset": "mp3_320"},
            {"id": "o", "kind": "audio", "preset": "opus_96"},
            {"id": "w", "kind": "waveform"},
        ]
    )
    assert not problems
    with pytest.raises(MediaError) as caught:
        await encode(source, outputs, workdir, tools=tools, limits=limits)
    error = caught.value
    assert error.code.startswith(FAMILIES), error.code
    for secret in (str(source), str(source.parent), str(workdir), str(tools.ffmpeg)):
        assert secret not in error.message
    assert listed(workdir) == []
    assert listed(source.parent) == before
    return error


@pytest.mark.parametrize("name", [*SCRIPTS, *BLOBS, *BROKEN])
async def test_a_hostile_file_is_a_typed_error_and_touches_nothing(
    name: str, canaries: Canaries, spoilt: dict[str, bytes], workdir: Path, tools: Tools, limits: MediaLimits
) -> None:
    source = canaries.file.parent / name
    everything = {**scripts(canaries.file, canaries.port), **(blobs() if name in BLOBS else {}), **spoilt}
    source.write_bytes(everything[name])
    error = await refused(source, workdir, tools, limits)
    assert error.category is Category.PERMANENT, error.code
    assert canaries.touched() == []


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_script_is_refused_by_an_ffprobe_too(
    name: str, canaries: Canaries, workdir: Path, tools: Tools, ffprobe: Path, limits: MediaLimits
) -> None:
    source = canaries.file.parent / name
    source.write_bytes(scripts(canaries.file, canaries.port)[name])
    both = replace(tools, ffprobe=ffprobe)
    assert (await refused(source, workdir, both, limits)).category is Category.PERMANENT
    assert canaries.touched() == []


def test_the_canaries_sing_when_they_are_touched(canaries: Canaries, media: Media) -> None:
    script = canaries.file.parent / "list.ffconcat"
    script.write_text(f"ffconcat version 1.0\nfile {canaries.file.name}\n")
    media.ffmpeg("-i", str(script), "-f", "null", "-")
    assert canaries.touched() == ["the file was opened"]


@pytest.mark.parametrize("kind", ["link", "link_out", "dangling", "folder", "fifo", "device", "missing"])
async def test_only_a_plain_file_is_a_source(
    kind: str, canaries: Canaries, workdir: Path, tools: Tools, limits: MediaLimits
) -> None:
    source = canaries.file.parent / kind
    match kind:
        case "link":
            source.symlink_to(canaries.file)
        case "link_out":
            source.symlink_to("/etc/passwd")
        case "dangling":
            source.symlink_to("/nonexistent/file")
        case "folder":
            source.mkdir()
        case "fifo":
            os.mkfifo(source)
        case "device":
            source = Path("/dev/zero")
    outputs, _ = read_outputs([{"id": "a", "kind": "audio", "preset": "mp3_320"}])
    with pytest.raises(MediaError) as caught:
        await encode(source, outputs, workdir, tools=tools, limits=limits)
    assert caught.value.code == "media.unreadable"
    assert listed(workdir) == []
    assert canaries.touched() == []


@pytest.mark.parametrize(
    ("code", "limits"),
    [
        ("media.too_large", MediaLimits(max_source_bytes=1000)),
        ("media.too_long", MediaLimits(max_duration_s=1.5)),
        ("media.too_many_pixels", MediaLimits(max_pixels=1000)),
        ("media.too_many_streams", MediaLimits(max_streams=1)),
    ],
)
async def test_a_source_beyond_a_limit_is_refused_before_any_work(
    code: str, limits: MediaLimits, media: Media, workdir: Path, tools: Tools, ffprobe: Path
) -> None:
    source = media.video("video.mp4")
    for used in (tools, replace(tools, ffprobe=ffprobe)):
        error = await refused(source, workdir, used, limits)
        assert (error.code, error.category) == (code, Category.PERMANENT)


def with_cover(media: Media, target: Path, picture: bytes) -> Path:
    """An MP3 with this as its cover, whatever it is."""
    frame = b"\0image/png\0\x03\0" + picture
    size = len(frame) + 10
    synchsafe = bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))
    tag = b"ID3\x03\0\0" + synchsafe + b"APIC" + len(frame).to_bytes(4, "big") + b"\0\0" + frame
    plain = media.tone("plain.mp3", "-write_xing", "0", "-id3v2_version", "0")
    target.write_bytes(tag + plain.read_bytes())
    return target


@pytest.mark.parametrize(
    "picture",
    [b"no picture at all", png(50, 50)[:200], b"", png(60_000, 60_000)],
    ids=["words", "cut", "empty", "bomb"],
)
async def test_sound_with_a_broken_cover_is_still_sound(
    media: Media, workdir: Path, tmp_path: Path, tools: Tools, limits: MediaLimits, picture: bytes
) -> None:
    source = with_cover(media, tmp_path / "broken.mp3", picture)
    names = ("mp3_320", "aac_256", "opus_96", "flac", "wav_16")
    outputs, _ = read_outputs([{"id": name, "kind": "audio", "preset": name} for name in names])
    made = await encode(source, outputs, workdir, tools=tools, limits=limits)
    assert all(output.duration_ms for output in made)
    if picture == png(60_000, 60_000):
        assert all("cover_unreadable" in output.warnings for output in made), "and nobody unpacked it"


async def test_a_wrong_extension_is_no_lie_that_anybody_believes(
    media: Media, workdir: Path, tmp_path: Path, tools: Tools, limits: MediaLimits
) -> None:
    source = tmp_path / "really_flac.mp3"
    source.write_bytes(media.tone("tone.flac").read_bytes())
    outputs, _ = read_outputs([{"id": "a", "kind": "audio", "preset": "mp3_320"}])
    (made,) = await encode(source, outputs, workdir, tools=tools, limits=limits)
    assert made.duration_ms == 1000
