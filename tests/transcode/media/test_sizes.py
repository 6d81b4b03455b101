"""What one job may write: the sum of its outputs and the number of their files are bounded, and the loop runs on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.media import sizes
from euterpe.transcode.media.encode import encode
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.schema.checking import read_outputs
from tests.transcode.media.making import Media, listed

HLS = {"id": "h", "kind": "hls", "segment_seconds": 1, "variants": [{"preset": "aac_256"}]}


async def test_all_outputs_of_a_job_count_together(media: Media, workdir: Path, tools: Tools) -> None:
    """Each of them is within the limit of one output."""
    source = media.noise("noise3.wav", seconds=3)
    outputs, _ = read_outputs(
        [{"id": f"w{n}", "kind": "audio", "preset": "wav_24", "filename": f"{n}.wav"} for n in range(3)]
    )
    limits = MediaLimits(max_job_bytes=2 * source.stat().st_size)
    with pytest.raises(MediaError) as caught:
        await encode(source, outputs, workdir, tools=tools, limits=limits)
    assert (caught.value.code, caught.value.category) == ("output.job_too_large", Category.PERMANENT)
    assert listed(workdir) == []


async def test_a_source_that_makes_too_many_segments_is_refused_before_it_is_encoded(
    media: Media, workdir: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[Path] = []
    monkeypatch.setattr(sizes, "sizes_in", lambda folder: walks.append(folder))
    outputs, _ = read_outputs([HLS])
    source = media.noise("noise9.wav", seconds=9)
    with pytest.raises(MediaError) as caught:
        await encode(source, outputs, workdir, tools=tools, limits=MediaLimits(max_segments=8))
    assert caught.value.code == "output.too_many_segments"
    assert not walks


async def test_the_files_of_an_encode_are_looked_at_in_a_thread(
    media: Media, workdir: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked_by: set[int] = set()
    walk = sizes.sizes_in

    def recorded(folder: Path) -> sizes.Written:
        walked_by.add(threading.get_ident())
        return walk(folder)

    monkeypatch.setattr(sizes, "sizes_in", recorded)
    outputs, _ = read_outputs([HLS])
    await encode(media.noise("noise3.wav", seconds=3), outputs, workdir, tools=tools, limits=MediaLimits())
    assert walked_by
    assert threading.get_ident() not in walked_by


async def test_files_are_counted_where_the_length_of_a_source_is_not_known(
    media: Media, workdir: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "OTHER_FILES", 0)
    monkeypatch.setattr("euterpe.transcode.media.encode.check_segments", lambda *_: None)
    outputs, _ = read_outputs([HLS])
    source = media.noise("noise9.wav", seconds=9)
    with pytest.raises(MediaError) as caught:
        await encode(source, outputs, workdir, tools=tools, limits=MediaLimits(max_segments=5))
    assert caught.value.code == "output.too_many_segments"
    assert listed(workdir) == []


def test_sizes_are_summed_by_the_first_folder(tmp_path: Path) -> None:
    (tmp_path / "0" / "v").mkdir(parents=True)
    (tmp_path / "0" / "v" / "a").write_bytes(b"123")
    (tmp_path / "0" / "b").write_bytes(b"12")
    (tmp_path / "1").mkdir()
    (tmp_path / "tags").write_bytes(b"1")
    (tmp_path / "0" / "link").symlink_to(tmp_path / "0")
    found = sizes.sizes_in(tmp_path)
    assert (found.sizes["1"], found.sizes["tags"], found.files) == (0, 1, 4)
    assert found.sizes["0"] >= 5


def test_a_request_for_too_many_segments_is_refused() -> None:
    ladder = [{"preset": name} for name in ("h264_480p", "h264_720p", "h264_1080p", "aac_96", "aac_160", "aac_256")]
    many = [{"id": f"h{n}", "kind": "hls", "segment_seconds": 1, "variants": ladder} for n in range(2)]
    _, problems = read_outputs(many)
    assert [(p.pointer, p.problem.code) for p in problems] == [("/1/segment_seconds", "too_many_segments")]
    assert "12 segments for each second" in problems[0].problem.message
    _, problems = read_outputs([{**each, "segment_seconds": 2} for each in many])
    assert not problems
