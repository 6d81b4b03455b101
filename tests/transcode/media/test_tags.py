"""Tags, covers and chapters: none is lost on the way from any format to any other that can carry it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.kinds.tags import Cover, metadata_file, picture_block, wanted_chapters
from euterpe.transcode.media.probing.info import Chapter, MediaInfo, MediaStream
from euterpe.transcode.media.probing.probe import probe
from euterpe.transcode.media.span import TimeSpan
from euterpe.transcode.schema.outputs import Tags
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import CHAPTERS, CUSTOM_TAGS, TAGS, Media

TARGETS = ("mp3_v0", "mp3_320", "aac_256", "opus_96", "ogg_q5", "flac", "flac_24", "alac", "wav_16", "wav_24")
NO_CUSTOM_TAGS = {"wav_16", "wav_24"}
NO_COVER = {"wav_16", "wav_24"}
NO_CHAPTERS = {"wav_16", "wav_24"}

# Name -> options, and what this kind of source itself has lost when it was made.
SOURCES: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "mp3.mp3": (("-c:a", "libmp3lame"), frozenset()),
    "aac.m4a": (("-c:a", "aac"), frozenset({"custom"})),
    "alac.m4a": (("-c:a", "alac"), frozenset({"custom"})),
    "flac.flac": (("-c:a", "flac"), frozenset({"chapters"})),
    "opus.opus": (("-c:a", "libopus"), frozenset({"cover"})),
    "vorbis.ogg": (("-c:a", "libvorbis"), frozenset({"cover", "chapters"})),
    "wav.wav": (("-c:a", "pcm_s16le"), frozenset({"cover", "chapters", "custom"})),
    "aiff.aiff": (("-c:a", "pcm_s16be", "-write_id3v2", "1"), frozenset()),
    "mka.mka": (("-c:a", "flac"), frozenset({"cover"})),
    "wavpack.wv": (("-c:a", "wavpack"), frozenset({"cover", "chapters"})),
    "wma.wma": (("-c:a", "wmav2"), frozenset({"cover", "chapters"})),
}


async def found(path: Path, tools: Tools, limits: MediaLimits) -> tuple[dict[str, str], MediaInfo]:
    info = await probe(path, tools=tools, limits=limits)
    assert info.audio is not None
    return {**info.audio.tags, **info.tags}, info


@pytest.mark.parametrize("name", SOURCES)
async def test_nothing_that_a_container_can_carry_is_lost(
    name: str, run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    options, without = SOURCES[name]
    source = media.tagged(name, *options, cover="cover" not in without)
    had, source_info = await found(source, tools, limits)
    made = await run(source, *({"id": preset, "kind": "audio", "preset": preset} for preset in TARGETS))
    for output in made:
        has, info = await found(output.files[0].path, tools, limits)
        wanted = dict(TAGS) if output.id in NO_CUSTOM_TAGS or "custom" in without else {**TAGS, **CUSTOM_TAGS}
        assert {key: has.get(key) for key in wanted} == wanted, output.id
        if "cover" not in without and output.id not in NO_COVER:
            assert [(cover.codec, cover.width, cover.height) for cover in info.covers] == [("png", 48, 48)], output.id
            assert _cover(media, output.files[0].path) == _cover(media, source), output.id
        if "chapters" not in without and output.id not in NO_CHAPTERS:
            titles = [(each.start_ms, each.title) for each in info.chapters]
            assert titles == [(start, title) for start, _, title in CHAPTERS], output.id
        said = {warning.partition(":")[0] for warning in output.warnings}
        lost_tags = output.id in NO_CUSTOM_TAGS and bool(had.keys() - has.keys() - {"language"})
        assert said == {
            *(["tags_dropped"] if lost_tags else []),
            *(["cover_dropped"] if source_info.covers and output.id in NO_COVER else []),
            *(["chapters_dropped"] if source_info.chapters and output.id in NO_CHAPTERS else []),
        }, output.id


def _cover(media: Media, path: Path) -> bytes:
    return media.ffmpeg("-i", str(path), "-map", "0:v:0", "-c", "copy", "-f", "image2pipe", "-")


async def test_pictures_written_as_a_comment_and_chapters_as_tags_can_be_read_as_a_source_again(
    run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    """Formats that ffmpeg's own muxers give no cover or no chapters: made by us, then a source themselves."""
    source = media.tagged("mp3.mp3", "-c:a", "libmp3lame")
    for preset in ("opus_96", "ogg_q5", "flac"):
        (first,) = await run(source, {"id": "a", "kind": "audio", "preset": preset})
        targets = ("mp3_320", "aac_256", "opus_96", "ogg_q5", "flac")
        outputs = [{"id": f"{target}-again", "kind": "audio", "preset": target} for target in targets]
        for second in await run(first.files[0].path, *outputs):
            _, info = await found(second.files[0].path, tools, limits)
            assert _cover(media, second.files[0].path) == media.cover().read_bytes(), (preset, second.id)
            assert [each.title for each in info.chapters] == ["one", "two"], (preset, second.id)


async def test_tags_are_set_removed_and_stripped_as_asked(
    run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    source = media.tagged("mp3.mp3", "-c:a", "libmp3lame")
    changed = {"mode": "copy", "set": {"Title": "New", "genre": ""}}
    bare = {"mode": "strip", "set": {"artist": "Only"}}
    for preset in ("mp3_320", "opus_96", "flac", "aac_256"):
        outputs = await run(
            source,
            {"id": "changed", "kind": "audio", "preset": preset, "tags": changed},
            {"id": "bare", "kind": "audio", "preset": preset, "tags": bare, "cover": "strip"},
        )
        first, info = await found(outputs[0].files[0].path, tools, limits)
        assert first["title"] == "New"
        assert first["artist"] == TAGS["artist"]
        assert "genre" not in first
        assert len(info.covers) == 1
        second, info = await found(outputs[1].files[0].path, tools, limits)
        assert {key: value for key, value in second.items() if key != "language"} == {"artist": "Only"}
        assert not info.covers
        assert not info.chapters


async def test_chapters_move_with_a_trim(run: Encode, media: Media, tools: Tools, limits: MediaLimits) -> None:
    source = media.tagged("mp3.mp3", "-c:a", "libmp3lame")
    (made,) = await run(
        source, {"id": "a", "kind": "audio", "preset": "flac", "trim": {"start_ms": 300, "end_ms": 900}}
    )
    _, info = await found(made.files[0].path, tools, limits)
    assert [(each.start_ms, each.title) for each in info.chapters] == [(0, "one"), (100, "two")]


def test_chapters_outside_a_trim_are_left_out() -> None:
    info = MediaInfo(
        format="x",
        size_bytes=1,
        duration_ms=900,
        duration_estimated=False,
        bit_rate=None,
        streams=(),
        tags={},
        chapters=(Chapter(0, 300, "a"), Chapter(300, 600, "b"), Chapter(600, 900, "c")),
    )
    span = TimeSpan(start_ms=300, end_ms=650, length_ms=350, exact=True)
    assert wanted_chapters(Tags(), info, span) == (Chapter(0, 300, "b"), Chapter(300, 350, "c"))
    assert wanted_chapters(Tags(mode="strip"), info, span) == ()


async def test_a_metadata_file_says_any_text_whatever_it_looks_like(
    media: Media, tools: Tools, limits: MediaLimits
) -> None:
    hostile = {"title": "a\n[CHAPTER]\nSTART=0", "composer": "; not = a # comment \\", "x;y#z": "ü\n"}
    text = media.folder / "hostile.txt"
    text.write_text(metadata_file("mp3", hostile, (), ()))
    tone = media.tone("tone.wav")
    source = media.make("hostile.flac", "-i", str(tone), "-f", "ffmetadata", "-i", str(text), "-map_metadata", "1")
    tags = (await probe(source, tools=tools, limits=limits)).tags
    assert tags == {**hostile, "composer": f"{hostile['composer']} "}, "a backslash cannot be the last letter"


def test_a_picture_block_is_laid_out_as_flac_says() -> None:
    stream = MediaStream(index=1, kind="cover", codec="png", width=3, height=2, tags={"comment": "Cover (back)"})
    block = picture_block(Cover(stream, b"DATA"))
    assert block[:8] == bytes([0, 0, 0, 4, 0, 0, 0, 9])
    assert block[8:17] == b"image/png"
    assert block[-4:] == b"DATA"
    text = metadata_file("opus", {}, (), (Cover(stream, b"DATA"),))
    (line,) = (line for line in text.splitlines() if line.startswith("METADATA_BLOCK_PICTURE="))
    assert base64.b64decode(line.partition("=")[2].replace("\\", "")) == block
