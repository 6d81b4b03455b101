"""Waveforms: the numbers against ones computed here, the picture against its pixels."""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from pathlib import Path

import pytest

from euterpe.transcode.media.kinds.waveform import MOST_COLUMNS, Peaks
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media


def computed(samples: bytes, channels: int, per_pixel: int, shift: int) -> list[int]:
    values = struct.unpack(f"<{len(samples) // 2}h", samples)
    data = []
    for start in range(0, len(values), per_pixel * channels):
        column = values[start : start + per_pixel * channels]
        for channel in range(channels):
            own = column[channel::channels]
            data += [min(own) >> shift, max(own) >> shift]
    return data


@pytest.mark.parametrize(
    ("bits", "per_pixel", "split"), [(8, 512, False), (16, 100, False), (8, 4096, True), (16, 44100, True)]
)
async def test_the_peaks_are_those_of_the_samples(
    run: Encode, media: Media, bits: int, per_pixel: int, split: bool
) -> None:
    source = media.noise("stereo.wav", "-ac", "2", "-ar", "44100", "-af", "pan=stereo|c0=c0|c1=0.5*c0", seconds=2)
    wanted = {"id": "w", "kind": "waveform", "bits": bits, "samples_per_pixel": per_pixel, "split_channels": split}
    (made,) = await run(source, wanted)
    document = json.loads(made.files[0].path.read_bytes())
    channels = 2 if split else 1
    samples = media.samples(source, "-ac", str(channels))
    expected = computed(samples, channels, per_pixel, 16 - bits)
    assert document == {
        "version": 2,
        "channels": channels,
        "sample_rate": 44100,
        "samples_per_pixel": per_pixel,
        "bits": bits,
        "length": len(expected) // 2 // channels,
        "data": expected,
    }
    assert made.duration_ms == 2000
    assert made.files[0].content_type == "application/json"


async def test_a_waveform_of_a_part_has_the_length_of_the_part(run: Encode, media: Media) -> None:
    trim = {"start_ms": 500, "end_ms": 1500}
    (made,) = await run(media.tone("tone3.wav", seconds=3), {"id": "w", "kind": "waveform", "trim": trim})
    assert json.loads(made.files[0].path.read_bytes())["length"] == -(-44100 // 512)
    assert made.duration_ms == 1000


def pixels(path: Path) -> tuple[int, int, list[bytes]]:
    """Rows of a PNG of one byte a pixel, and nothing else that PNG could be."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (depth, kind) == (8, 3)
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    raw = zlib.decompress(data[at + 4 : at + 4 + size])
    return width, height, [raw[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(height)]


async def test_the_picture_shows_loud_parts_high_and_silence_as_a_line(run: Encode, media: Media) -> None:
    source = media.make("halves.wav", "-f", "lavfi", "-i", "aevalsrc='if(lt(t,1),0.5*sin(440*2*PI*t),0)':d=2:s=44100")
    (made,) = await run(
        source,
        {"id": "w", "kind": "waveform", "format": "png", "width": 200, "height": 100, "background": "#000000"},
    )
    width, height, rows = pixels(made.files[0].path)
    assert (width, height) == (made.width, made.height) == (200, 100)
    columns = [[row[x] for row in rows] for x in range(width)]
    assert all(sum(column) == pytest.approx(50, abs=2) for column in columns[2:98])
    assert all(sum(column) == 1 for column in columns[102:])
    assert media.ffmpeg("-i", str(made.files[0].path), "-f", "rawvideo", "-pix_fmt", "rgba", "-"), "others can read it"


def test_columns_stay_bounded_however_long_the_sound_is() -> None:
    peaks = Peaks(1, 4, merge=True)
    chunk = array("h", range(-2048, 2048)).tobytes()
    for _ in range(200):
        peaks.feed(chunk)
    peaks.finish()
    assert len(peaks.lows[0]) <= 2 * MOST_COLUMNS
    assert (min(peaks.lows[0]), max(peaks.highs[0])) == (-2048, 2047)
    assert peaks.frames == 200 * 4096


def test_samples_may_be_cut_anywhere_between_two_reads() -> None:
    data = array("h", [5, -3, 100, -100, 7, 9, 1]).tobytes()
    at_once, bytewise = Peaks(1, 2), Peaks(1, 2)
    at_once.feed(data)
    for byte in data:
        bytewise.feed(bytes([byte]))
    for peaks in (at_once, bytewise):
        peaks.finish()
        assert list(peaks.lows[0]) == [-3, -100, 7, 1]
        assert list(peaks.highs[0]) == [5, 100, 9, 1]
