"""Video, HLS ladders and thumbnails."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.probe import probe
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media, listed


def played(ffprobe: Path, playlist: Path) -> tuple[float, set[str], int]:
    """As a player does: every packet of every segment is read."""
    command = [str(ffprobe), "-v", "error", "-count_packets", "-show_format", "-show_streams", "-of", "json"]
    done = subprocess.run([*command, str(playlist)], capture_output=True, check=True)
    assert done.stderr == b""
    document = json.loads(done.stdout)
    packets = [int(stream["nb_read_packets"]) for stream in document["streams"]]
    return float(document["format"]["duration"]), {each["codec_name"] for each in document["streams"]}, min(packets)


async def test_a_ladder_plays_in_every_variant_and_its_segments_add_up(
    run: Encode, media: Media, ffprobe: Path, workdir: Path
) -> None:
    source = media.video("ladder.mp4", seconds=5, size="1280x720")
    (made,) = await run(
        source,
        {
            "id": "hls",
            "kind": "hls",
            "segment_seconds": 2,
            "variants": [{"preset": name} for name in ("aac_96", "h264_1080p", "h264_720p", "h264_480p")],
        },
    )
    assert made.warnings == ("variant_left_out:h264_1080p",)
    assert made.files[0].name == "hls/master.m3u8"
    master = (workdir / "hls/master.m3u8").read_text()
    assert re.findall(r"^\w+/index.m3u8$", master, re.MULTILINE) == [
        "h264_720p/index.m3u8",
        "h264_480p/index.m3u8",
        "aac_96/index.m3u8",
    ]
    assert re.findall(r"RESOLUTION=(\d+x\d+)", master) == ["1280x720", "854x480"]
    assert len(re.findall(r'CODECS="avc1\.64[0-9a-f]{4},mp4a\.40\.2"', master)) == 2
    for preset, codecs in (("aac_96", {"aac"}), ("h264_720p", {"h264", "aac"}), ("h264_480p", {"h264", "aac"})):
        folder = workdir / "hls" / preset
        lengths = [float(each) for each in re.findall(r"#EXTINF:([\d.]+)", (folder / "index.m3u8").read_text())]
        assert sum(lengths) == pytest.approx(5, abs=0.1)
        assert len(lengths) == 3 == len(list(folder.glob("*.m4s")))
        assert max(lengths) <= 2.1
        seconds, found, packets = played(ffprobe, folder / "index.m3u8")
        assert seconds == pytest.approx(5, abs=0.1)
        assert found == codecs
        assert packets > 50
    assert sorted(file.name for file in made.files) == [name for name in listed(workdir) if "." in name]
    types = {Path(file.name).suffix: file.content_type for file in made.files}
    assert types == {".m3u8": "application/vnd.apple.mpegurl", ".m4s": "video/iso.segment", ".mp4": "video/mp4"}


async def test_bandwidths_of_the_master_are_those_of_the_segments(run: Encode, media: Media, workdir: Path) -> None:
    variants = [{"preset": "aac_96"}, {"preset": "aac_256"}]
    source = media.noise("noise9.wav", seconds=9)
    await run(source, {"id": "h", "kind": "hls", "segment_seconds": 3, "variants": variants})
    master = (workdir / "h/master.m3u8").read_text()
    order = re.findall(r"^(\w+)/index.m3u8$", master, re.MULTILINE)
    assert order == ["aac_256", "aac_96"]
    for name, peak, average in zip(
        order, re.findall(r"[:,]BANDWIDTH=(\d+)", master), re.findall(r"AVERAGE-BANDWIDTH=(\d+)", master), strict=True
    ):
        sizes = [path.stat().st_size for path in (workdir / "h" / name).glob("*.m4s")]
        assert int(average) == pytest.approx(8 * sum(sizes) / 9, rel=0.02)
        assert int(peak) == pytest.approx(8 * max(sizes) / 3, rel=0.05)
        assert int(peak) >= int(average)


async def test_variants_are_cut_at_the_same_times(run: Encode, media: Media, workdir: Path) -> None:
    source = media.video("small.mp4", seconds=3, size="854x480")
    variants = [{"preset": "h264_480p"}, {"preset": "aac_96"}]
    await run(source, {"id": "h", "kind": "hls", "segment_seconds": 1, "variants": variants})
    playlists = [workdir / "h" / each["preset"] / "index.m3u8" for each in variants]
    cuts = [re.findall(r"#EXTINF:([\d.]+)", path.read_text()) for path in playlists]
    assert len(cuts[0]) == 3
    assert [float(cut) for cut in cuts[1][:2]] == pytest.approx([float(cut) for cut in cuts[0][:2]], abs=0.05)


async def test_a_ladder_that_the_source_cannot_fill_at_all_is_an_error(run: Encode, media: Media) -> None:
    with pytest.raises(MediaError) as caught:
        await run(media.tone("tone.wav"), {"id": "h", "kind": "hls", "variants": [{"preset": "h264_720p"}]})
    assert (caught.value.code, caught.value.output_id) == ("output.no_variant", "h")


async def test_a_video_is_made_smaller_and_never_larger(
    run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    source = media.video("ladder.mp4", seconds=5, size="1280x720")
    trim = {"start_ms": 1000, "end_ms": 3000}
    made = await run(
        source,
        {"id": "small", "kind": "video", "preset": "h264_480p", "trim": trim},
        {"id": "same", "kind": "video", "preset": "h264_1080p", "trim": trim, "tags": {"set": {"title": "Film"}}},
    )
    assert [(each.width, each.height) for each in made] == [(854, 480), (1280, 720)]
    assert [each.warnings for each in made] == [(), ("not_enlarged",)]
    for each in made:
        assert each.duration_ms == 2000
        info = await probe(each.files[0].path, tools=tools, limits=limits)
        assert [stream.codec for stream in info.streams] == ["h264", "aac"]
    info = await probe(made[1].files[0].path, tools=tools, limits=limits)
    assert info.tags["title"] == "Film"
    head = made[0].files[0].path.read_bytes()[:4096]
    assert b"moov" in head, "it can be played while it is still being loaded"


async def test_a_picture_that_is_shown_upright_is_measured_as_it_is_shown(
    run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    flat = media.video("flat.mp4", size="640x360", seconds=1)
    source = media.make("upright.mp4", "-display_rotation", "90", "-i", str(flat), "-c", "copy")
    made, thumb = await run(
        source, {"id": "v", "kind": "video", "preset": "h264_480p"}, {"id": "t", "kind": "thumbnail", "width": 90}
    )
    assert (made.width, made.height) == (360, 640)
    assert (thumb.width, thumb.height) == (90, 160)


async def test_thumbnails_show_the_frames_of_their_times(run: Encode, media: Media, workdir: Path) -> None:
    source = media.make(
        "colours.mp4",
        *("-f", "lavfi", "-i", "color=red:s=64x48:d=1:r=25", "-f", "lavfi", "-i", "color=blue:s=64x48:d=1:r=25"),
        *("-filter_complex", "[0][1]concat=n=2:v=1:a=0", "-c:v", "libx264", "-pix_fmt", "yuv420p"),
    )
    (made,) = await run(
        source, {"id": "t", "kind": "thumbnail", "at_ms": [0, 1500, 99000], "width": 32, "format": "png"}
    )
    assert made.warnings == ("thumbnail_beyond_end",)
    assert [file.name for file in made.files] == ["t-1.png", "t-2.png", "t-3.png"]
    assert (made.width, made.height) == (32, 24)
    shown = []
    for file in made.files:
        raw = media.ffmpeg("-i", str(file.path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
        shown.append("red" if raw[0] > raw[2] else "blue")
    assert shown == ["red", "blue", "blue"]


async def test_a_thumbnail_of_sound_is_its_cover(run: Encode, media: Media) -> None:
    source = media.tagged("mp3.mp3", "-c:a", "libmp3lame")
    (made,) = await run(source, {"id": "t", "kind": "thumbnail", "width": 24, "height": 24})
    assert (made.codec, made.width, made.height) == ("mjpeg", 24, 24)
    assert made.warnings == ("thumbnail_of_cover",)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"id": "x", "kind": "thumbnail"}, "output.no_video"),
        ({"id": "x", "kind": "video", "preset": "h264_480p"}, "output.no_video"),
    ],
)
async def test_pictures_of_a_source_without_any_are_an_error(
    run: Encode, media: Media, wanted: dict[str, object], code: str
) -> None:
    with pytest.raises(MediaError) as caught:
        await run(media.tone("tone.wav"), wanted)
    assert (caught.value.code, caught.value.output_id) == (code, "x")


@pytest.mark.parametrize("kind", ["audio", "waveform"])
async def test_sound_of_a_source_without_any_is_an_error(run: Encode, media: Media, kind: str) -> None:
    source = media.make("mute.mp4", "-f", "lavfi", "-i", "testsrc=d=1:s=64x64", "-c:v", "libx264")
    wanted = {"id": "x", "kind": kind, **({"preset": "mp3_320"} if kind == "audio" else {})}
    with pytest.raises(MediaError) as caught:
        await run(source, wanted)
    assert caught.value.code == "output.no_audio"


async def test_a_video_without_sound_stays_without(run: Encode, media: Media, ffprobe: Path, workdir: Path) -> None:
    source = media.make("mute.mp4", "-f", "lavfi", "-i", "testsrc=d=1:s=64x64", "-c:v", "libx264")
    video, _ = await run(
        source,
        {"id": "v", "kind": "video", "preset": "h264_480p", "loudness": {}},
        {"id": "h", "kind": "hls", "variants": [{"preset": "h264_480p"}]},
    )
    assert video.channels is None
    assert played(ffprobe, workdir / "h/h264_480p/index.m3u8")[1] == {"h264"}
