"""An HLS ladder: its files lie in a folder of the attempt, and the playlist that names them is published last."""

from __future__ import annotations

from tests.transcode.service.studio import Studio

HLS = {"id": "hls", "kind": "hls", "segment_seconds": 1, "variants": [{"preset": "aac_96"}, {"preset": "aac_160"}]}
PEAKS = {"id": "peaks", "kind": "waveform", "format": "json"}


async def test_a_ladder_is_published_whole_and_its_master_names_files_that_are_there(studio: Studio) -> None:
    studio.start_worker()
    done = await studio.until(await studio.accepted(studio.body(HLS, PEAKS)))
    assert done["status"] == "succeeded", done
    hls, peaks = done["outputs"]
    assert (hls["key"], peaks["key"]) == ("out/hls/master.m3u8", "out/peaks.json")
    lines = (studio.root / hls["key"]).read_text().splitlines()
    variants = [line for line in lines if not line.startswith("#")]
    attempt = f"attempt-{done['job_id']}-1"
    assert sorted(variants) == [f"{attempt}/aac_160/index.m3u8", f"{attempt}/aac_96/index.m3u8"]
    folder = (studio.root / hls["key"]).parent
    for variant in variants:
        playlist = folder / variant
        segments = [line for line in playlist.read_text().splitlines() if line and not line.startswith("#")]
        assert segments
        assert all((playlist.parent / segment).is_file() for segment in segments)
    assert {file["key"] for file in hls["files"]} == {
        str(path.relative_to(studio.root)) for path in folder.rglob("*") if path.is_file()
    }
    assert hls["file_count"] == len(hls["files"])
    assert hls["size_bytes"] == sum(file["size_bytes"] for file in hls["files"])
