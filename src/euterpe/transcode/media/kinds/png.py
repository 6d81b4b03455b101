"""A PNG of two colours, written without any library: one byte a pixel, an index into the two."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path


class TwoColourPicture:
    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._stride = width + 1  # a row begins with the number of its filter, 0: none
        self._pixels = bytearray(self._stride * height)

    def draw_column(self, x: int, top: int, bottom: int) -> None:
        """From `top` to `bottom`, both inside."""
        first = top * self._stride + x + 1
        last = bottom * self._stride + x + 1
        self._pixels[first : last + 1 : self._stride] = b"\1" * (bottom - top + 1)

    def write(self, path: Path, background: str, colour: str) -> None:
        """Colours as `#rrggbb` or `#rrggbbaa`."""
        colours = [bytes.fromhex(each[1:].ljust(8, "f")) for each in (background, colour)]
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 3, 0, 0, 0)
        chunks = (
            (b"IHDR", header),
            (b"PLTE", b"".join(each[:3] for each in colours)),
            (b"tRNS", b"".join(each[3:4] for each in colours)),
            (b"IDAT", zlib.compress(self._pixels, 6)),
            (b"IEND", b""),
        )
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
