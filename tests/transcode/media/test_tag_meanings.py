"""Tags keep their meaning from any container to any other, in the frames that players read.

An independent reader (tinytag) reads what we wrote; frames that it does not tell apart are looked up in the bytes.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from tinytag import TinyTag

from euterpe.transcode.media.kinds.tag_names import by_meaning, freeform, whole_beats, without_gains
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media

MEANT = {
    "title": "A song",
    "artist": "First; Sécond",
    "album_artist": "Somebody",
    "track": "3",
    "track_total": "12",
    "disc": "1",
    "disc_total": "2",
    "isrc": "USRC17607839",
    "bpm": "128",
    "lyrics": "la la\nlä la",
    "comment": "héllo\nthere",
    "compilation": "1",
    "label": "Some Label",
    "barcode": "0123456789012",
    "catalognumber": "EUT-1",
}
PRESETS = {"mp3": "mp3_320", "m4a": "aac_256", "flac": "flac", "ogg": "ogg_q5", "opus": "opus_96"}
READ = {
    "title": "title",
    "albumartist": "album_artist",
    "track": "track",
    "track_total": "track_total",
    "disc": "disc",
    "disc_total": "disc_total",
    "isrc": "isrc",
    "bpm": "bpm",
    "lyrics": "lyrics",
    "comment": "comment",
    "barcode": "barcode",
}


def set_tags(preset: str) -> dict[str, object]:
    return {"id": preset, "kind": "audio", "preset": preset, "tags": {"mode": "strip", "set": MEANT}}


def read_back(path: Path) -> dict[str, list[str]]:
    """As tinytag reads it; it leaves a tag out that it takes for a number."""
    read = TinyTag.get(path).as_dict()
    return {name: [str(value) for value in values] for name, values in read.items() if isinstance(values, list)}


@pytest.mark.parametrize("first", PRESETS)
async def test_tags_keep_their_meaning_between_any_two_containers(first: str, run: Encode, media: Media) -> None:
    (source,) = await run(media.tone("tone.wav"), set_tags(PRESETS[first]))
    assert source.warnings == ()
    again = [{"id": f"again-{each}", "kind": "audio", "preset": each} for each in PRESETS.values()]
    for made, form in zip(await run(source.files[0].path, *again), PRESETS, strict=True):
        assert made.warnings == (), form
        _check(made.files[0].path, form)


def _check(path: Path, form: str) -> None:
    read = read_back(path)
    assert {name: read.get(name, [None])[0] for name in READ} == {name: MEANT[meant] for name, meant in READ.items()}, (
        form
    )
    data = path.read_bytes()
    match form:
        case "mp3":
            frames = re.findall(rb"(?:TSRC|TBPM|TCMP|TPUB|COMM|USLT|TRCK|TPOS|TXXX)(?=\0)", data[:4000])
            assert sorted(set(frames)) == sorted(
                [b"TSRC", b"TBPM", b"TCMP", b"TPUB", b"COMM", b"USLT", b"TRCK", b"TPOS", b"TXXX"]
            )
            assert read["artist"] == ["First; Sécond"]
        case "m4a":
            for atom in (b"\xa9lyr", b"\xa9cmt", b"cpil", b"tmpo", b"trkn", b"disk"):
                assert data.count(atom) == 1, atom
            names = re.findall(rb"----\0\0\0\x1cmean\0\0\0\0com.apple.iTunes\0\0\0.name\0\0\0\0([A-Z]+)", data)
            assert sorted(names) == [b"BARCODE", b"CATALOGNUMBER", b"ISRC", b"LABEL"]
            assert b"#" * 40 not in data
        case _:
            assert read["artist"] == ["First", "Sécond"]
            assert (read["label"], read["compilation"]) == (["Some Label"], ["1"]), form
    assert b"ARTIS1" not in data


async def test_pages_of_ogg_keep_their_checksums(run: Encode, media: Media) -> None:
    """Long enough for several pages; ffmpeg refuses a page whose checksum is wrong, and so do players."""
    text = media.folder / "many_pages.txt"
    text.write_text(f";FFMETADATA1\nartist=First\\;Second\nlyrics={'la la la ' * 20_000}\n")
    inputs = ("-f", "lavfi", "-i", "sine=d=1", "-f", "ffmetadata", "-i", str(text))
    source = media.make("many_pages.mka", *inputs, "-map_metadata", "1")
    (made,) = await run(source, {"id": "a", "kind": "audio", "preset": "opus_96"})
    assert read_back(made.files[0].path)["artist"] == ["First", "Second"]
    data = made.files[0].path.read_bytes()
    at, pages = 0, 0
    while at < len(data):
        lacing = data[at + 27 : at + 27 + data[at + 26]]
        end = at + 27 + len(lacing) + sum(lacing)
        page = data[at:end]
        assert struct.unpack("<I", page[22:26])[0] == _checksum(page[:22] + bytes(4) + page[26:])
        at, pages = end, pages + 1
    assert pages > 4


def _checksum(page: bytes) -> int:
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ 0x04C11DB7 if value & 0x80000000 else value << 1) & 0xFFFFFFFF
    return value


async def test_gains_of_the_source_go_where_the_level_was_changed(run: Encode, media: Media) -> None:
    source = media.tone("gains.flac", "-metadata", "REPLAYGAIN_TRACK_GAIN=-7.3 dB", "-metadata", "title=x")
    kept, changed = await run(
        source,
        {"id": "kept", "kind": "audio", "preset": "mp3_320"},
        {"id": "changed", "kind": "audio", "preset": "mp3_320", "loudness": {"target_lufs": -20}},
    )
    assert read_back(kept.files[0].path)["replaygain_track_gain"] == ["-7.3 dB"]
    after = read_back(changed.files[0].path)
    assert after["title"] == ["x"]
    assert "replaygain_track_gain" not in after
    assert changed.warnings == ()


def test_names_of_one_meaning_become_one() -> None:
    assert by_meaning({"tsrc": "a", "isrc": "b", "lyrics-eng": "c", "track": "3/12", "tracktotal": "13"}) == {
        "isrc": "a",
        "lyrics": "c",
        "track": "3",
        "track_total": "12",
    }
    assert by_meaning({"track": "A/1"}) == {"track": "A/1"}


def test_beats_that_are_no_whole_number_are_not_lost_in_an_mp4() -> None:
    assert whole_beats({"bpm": "128.00"}) == 128
    assert whole_beats({"bpm": "127.5"}) is None
    assert freeform({"bpm": "127.5", "track_total": "12"}) == {"BPM": "127.5", "TRACK_TOTAL": "12"}
    assert freeform({"bpm": "128", "track": "1", "track_total": "12"}) == {}


def test_only_gains_are_taken_out() -> None:
    tags = {"replaygain_album_peak": "1", "r128_track_gain": "1", "itunnorm": "1", "gain": "1"}
    assert without_gains(tags) == {"gain": "1"}
