"""What a probe finds: long and many tags whole, many chapters, the stream that players take; and what it may touch."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import Watch, run_contained
from euterpe.transcode.media.ffmpeg.run import Run
from euterpe.transcode.media.ffmpeg.source import ALLOWED_DECODERS, DECODERS
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.probe import probe
from tests import patience
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media


def with_metadata(media: Media, name: str, text: str, *options: str) -> Path:
    path = media.folder / f"{name}.txt"
    path.write_text(f";FFMETADATA1\n{text}")
    inputs = ("-f", "lavfi", "-i", "sine=d=10", "-f", "ffmetadata", "-i", str(path))
    return media.make(name, *inputs, "-map_metadata", "1", "-map_chapters", "1", *options)


async def test_the_time_of_a_probe_grows_with_the_size_of_a_tag_and_not_faster(
    media: Media, tools: Tools, limits: MediaLimits
) -> None:
    took: dict[int, float] = {}
    for size in (100_000, 8_000_000):
        source = with_metadata(media, f"lyrics-{size}.flac", "LYRICS=" + "la " * (size // 3) + "\n")
        began = time.process_time()
        wall = time.monotonic()
        info = await probe(source, tools=tools, limits=limits)
        took[size] = time.process_time() - began
        assert len(info.tags["lyrics"]) == size // 3 * 3 - 1 or len(info.tags["lyrics"]) == size // 3 * 3
        patience.in_time(time.monotonic() - wall, 10.0, f"{size} bytes of lyrics")
    patience.in_time(took[8_000_000], 1.0, "this process itself worked on 8 MB of lyrics")


async def test_900_chapters_and_lines_of_lyrics_are_all_there(
    run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    lyrics = "\\\n".join(f"line {number}" for number in range(900))
    chapters = "".join(
        f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={number * 10}\nEND={number * 10 + 10}\ntitle=chapter {number}\n"
        for number in range(900)
    )
    source = with_metadata(media, "chapters.mp3", f"lyrics={lyrics}\ntitle={'t' * 400}\n{chapters}")
    info = await probe(source, tools=tools, limits=limits)
    assert info.tags["title"] == "t" * 400
    assert [chapter.title for chapter in info.chapters] == [f"chapter {number}" for number in range(900)]
    (made,) = await run(source, {"id": "a", "kind": "audio", "preset": "mp3_320"})
    assert len((await probe(made.files[0].path, tools=tools, limits=limits)).chapters) == 900


async def test_a_prober_has_the_limits_of_the_sandbox_before_it_starts(tmp_path: Path, limits: MediaLimits) -> None:
    """The same call as a probe, with a program that says what it may do."""
    watch = Watch(deadline=time.monotonic() + 20, stall_s=20)
    done = await run_contained(
        ["/bin/sh", "-c", "ulimit -f; ulimit -v; ls /sys/class/net; cat /proc/self/status"],
        limits=limits,
        file_bytes=0,
        cwd=tmp_path,
        watch=watch,
        collect=True,
    )
    file_blocks, memory_kb, *rest = done.stdout.decode().splitlines()
    assert (file_blocks, memory_kb) == ("0", str(limits.memory_bytes // 1024))
    assert "NoNewPrivs:\t1" in rest


async def test_a_codec_that_is_on_no_list_is_refused_before_any_work(run: Encode, media: Media) -> None:
    assert "adpcm_g722" not in DECODERS
    assert "g722" not in ALLOWED_DECODERS.split(",")
    source = media.tone("g722.wav", "-c:a", "g722", "-ac", "1", "-ar", "16000")
    with pytest.raises(MediaError) as caught:
        await run(source, {"id": "a", "kind": "audio", "preset": "flac"})
    assert caught.value.code == "media.not_supported"


async def test_ffmpeg_itself_refuses_a_decoder_that_is_on_no_list(
    media: Media, tools: Tools, limits: MediaLimits, workdir: Path
) -> None:
    source = media.tone("g722.wav", "-c:a", "g722", "-ac", "1", "-ar", "16000")
    info = await probe(source, tools=tools, limits=limits)
    with pytest.raises(MediaError):
        await Run(source=source, info=info, folder=workdir, tools=tools, limits=limits).ffmpeg(["-f", "null", "-"])


async def test_the_default_stream_is_taken_and_not_the_first(run: Encode, media: Media) -> None:
    source = media.make(
        "two.mkv",
        *("-f", "lavfi", "-i", "sine=d=1:r=8000", "-f", "lavfi", "-i", "sine=d=1:r=16000"),
        *("-map", "0", "-map", "1", "-c:a", "flac", "-disposition:a:0", "0", "-disposition:a:1", "default"),
    )
    (made,) = await run(source, {"id": "a", "kind": "audio", "preset": "flac"})
    assert made.sample_rate == 16000


async def test_an_mpeg_transport_stream_is_encoded(run: Encode, media: Media) -> None:
    first = media.video("video.mp4")
    source = media.make("video.ts", "-i", str(first), "-c", "copy")
    audio, video = await run(
        source,
        {"id": "a", "kind": "audio", "preset": "mp3_320"},
        {"id": "v", "kind": "video", "preset": "h264_480p"},
    )
    assert audio.duration_ms == pytest.approx(2000, abs=100)
    assert video.duration_ms == pytest.approx(2000, abs=100)
