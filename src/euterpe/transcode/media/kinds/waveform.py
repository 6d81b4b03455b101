"""The shape of the sound: peaks as audiowaveform writes them, or a picture of them.

ffmpeg decodes into a pipe and a thread reads it, so neither memory nor disk grow with the length of the source.
"""

from __future__ import annotations

import os
import sys
from array import array
from pathlib import Path

import msgspec

from euterpe.transcode.media.kinds.png import TwoColourPicture
from euterpe.transcode.schema.outputs import WaveformOutput

CHUNK_BYTES = 64 * 1024
SAMPLE_BYTES = 2
MOST_COLUMNS = 32768
"""Columns kept while the length is still unknown; twice as many are halved. Enough for the widest picture."""


class Peaks:
    """Lowest and highest 16-bit sample of every `samples_per_pixel`, for each channel.

    With `merge` the number of columns stays bounded: when there are too many, pairs become one.
    """

    def __init__(self, channels: int, samples_per_pixel: int, *, merge: bool = False) -> None:
        self.channels = channels
        self.samples_per_pixel = samples_per_pixel
        self.lows = [array("h") for _ in range(channels)]
        self.highs = [array("h") for _ in range(channels)]
        self.frames = 0
        self._merge = merge
        self._rest = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        column = self.samples_per_pixel * self.channels * SAMPLE_BYTES
        whole = len(data) // column * column
        self._rest = data[whole:]
        for start in range(0, whole, column):
            self._column(data[start : start + column])
        if self._merge and len(self.lows[0]) >= 2 * MOST_COLUMNS:
            self._halve()

    def finish(self) -> None:
        frame = self.channels * SAMPLE_BYTES
        whole = len(self._rest) // frame * frame
        if whole:
            self._column(self._rest[:whole])
        self._rest = b""

    def _column(self, data: bytes) -> None:
        samples = array("h", data)
        if sys.byteorder == "big":
            samples.byteswap()
        self.frames += len(samples) // self.channels
        for channel in range(self.channels):
            own = samples[channel :: self.channels] if self.channels > 1 else samples
            self.lows[channel].append(min(own))
            self.highs[channel].append(max(own))

    def _halve(self) -> None:
        self.samples_per_pixel *= 2
        for channel in range(self.channels):
            lows, highs = self.lows[channel], self.highs[channel]
            self.lows[channel] = array("h", map(min, lows[::2], lows[1::2]))
            self.highs[channel] = array("h", map(max, highs[::2], highs[1::2]))


def read_peaks(fd: int, peaks: Peaks) -> None:
    while data := os.read(fd, CHUNK_BYTES):
        peaks.feed(data)
    peaks.finish()


def write_json(path: Path, output: WaveformOutput, peaks: Peaks, sample_rate: int) -> None:
    """Version 2 of audiowaveform's JSON: per column and channel a lowest and a highest value."""
    shift = 16 - output.bits
    length = len(peaks.lows[0])
    data = [0] * (2 * peaks.channels * length)
    for channel in range(peaks.channels):
        data[2 * channel :: 2 * peaks.channels] = [value >> shift for value in peaks.lows[channel]]
        data[2 * channel + 1 :: 2 * peaks.channels] = [value >> shift for value in peaks.highs[channel]]
    document = {
        "version": 2,
        "channels": peaks.channels,
        "sample_rate": sample_rate,
        "samples_per_pixel": peaks.samples_per_pixel,
        "bits": output.bits,
        "length": length,
        "data": data,
    }
    path.write_bytes(msgspec.json.encode(document))


def write_png(path: Path, output: WaveformOutput, peaks: Peaks) -> None:
    """Channels one above the other; the middle line is always drawn, so silence is a line and not nothing."""
    picture = TwoColourPicture(output.width, output.height)
    band = output.height // peaks.channels
    for channel in range(peaks.channels):
        lows, highs = peaks.lows[channel], peaks.highs[channel]
        for x in range(output.width if lows else 0):
            first = x * len(lows) // output.width
            last = max(first + 1, (x + 1) * len(lows) // output.width)
            top = _row(max(0, *highs[first:last]), band)
            bottom = _row(min(0, *lows[first:last]), band)
            picture.draw_column(x, channel * band + top, channel * band + bottom)
    picture.write(path, output.background, output.color)


def _row(sample: int, height: int) -> int:
    return min(height - 1, (32767 - sample) * height // 65536)
