"""Frames, comments and atoms that ffmpeg cannot write, put into the finished file in place.

Nothing moves: what is put there takes no more room than what ffmpeg wrote for it, so a file of any size costs the same.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from euterpe.transcode.media.kinds.tag_names import MP4_MUXERS, VORBIS_MUXERS, freeform, stand_ins
from euterpe.transcode.media.probing.cut import boxes_of

RESERVED_TAG = "keywords"
"""A tag that ffmpeg writes as an atom of the length of its value; ours never have this name."""
_FREEFORM_MEAN = b"com.apple.iTunes"
_UTF8, _WHOLE_NUMBER = 1, 21
"""Kinds of data in an atom."""
_LANGUAGE = b"eng"
_ID3_FRAMES = {"comment": b"COMM", "uslt": b"USLT", "lyrics": b"USLT"}
_MOST_HEAD_BYTES = 256 * 1024 * 1024
_OGG_HEADER = 27


def reserved_for(muxer: str, tags: Mapping[str, str]) -> dict[str, str]:
    """The tag that keeps room for `put_frames`, where this container needs room."""
    atoms = _own_atoms(tags) if muxer in MP4_MUXERS else b""
    return {RESERVED_TAG: "#" * (len(atoms) - len(_reserved_atom(0)))} if atoms else {}


def put_frames(path: Path, muxer: str, tags: Mapping[str, str]) -> None:
    with path.open("r+b") as file:
        fd = file.fileno()
        if muxer == "mp3":
            _convert_id3(fd)
        elif muxer in MP4_MUXERS:
            _fill_atoms(fd, _own_atoms(tags))
        elif muxer == "flac":
            _name_flac_comments(fd)
        elif muxer in VORBIS_MUXERS:
            _name_ogg_comments(fd)


def _convert_id3(fd: int) -> None:
    """Comments and lyrics out of TXXX, where no player looks, into COMM and USLT. They get shorter; padding follows."""
    head = os.pread(fd, 10, 0)
    if len(head) < 10 or head[:4] != b"ID3\x03":
        return
    size = _synchsafe(head[6:10])
    tag, at, made = os.pread(fd, size, 10), 0, bytearray()
    while at + 10 <= len(tag) and tag[at : at + 1] != b"\0":
        kind, length = tag[at : at + 4], int.from_bytes(tag[at + 4 : at + 8], "big")
        body = tag[at + 10 : at + 10 + length]
        frame = _own_frame(body) if kind == b"TXXX" else None
        made += frame if frame is not None else tag[at : at + 10 + length]
        at += 10 + length
    os.pwrite(fd, bytes(made).ljust(len(tag), b"\0"), 10)


def _own_frame(body: bytes) -> bytes | None:
    wide = body[:1] == b"\1"
    end = b"\0\0" if wide else b"\0"
    name, value = _split_text(body[1:], wide=wide)
    kind = _ID3_FRAMES.get(name.lower())
    if kind is None or body[:1] not in (b"\0", b"\1", b"\3"):
        return None
    while value.endswith(end) and len(value) % len(end) == 0:
        value = value[: -len(end)]
    content = body[:1] + _LANGUAGE + (b"\xff\xfe" if wide else b"") + end + value
    return kind + len(content).to_bytes(4, "big") + b"\0\0" + content


def _split_text(text: bytes, *, wide: bool) -> tuple[str, bytes]:
    """The name before the first terminator, and what follows it."""
    if not wide:
        name, _, value = text.partition(b"\0")
        return name.decode("latin-1"), value
    end = next((at for at in range(0, len(text) - 1, 2) if text[at : at + 2] == b"\0\0"), len(text))
    return text[:end].decode("utf-16", errors="replace"), text[end + 2 :]


def _synchsafe(four: bytes) -> int:
    return four[0] << 21 | four[1] << 14 | four[2] << 7 | four[3]


def _own_atoms(tags: Mapping[str, str]) -> bytes:
    return b"".join(
        _atom(
            b"----",
            _atom(b"mean", bytes(4) + _FREEFORM_MEAN)
            + _atom(b"name", bytes(4) + name.encode())
            + _atom(b"data", struct.pack(">II", _UTF8, 0) + value.encode()),
        )
        for name, value in freeform(tags).items()
    )


def _atom(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content) + 8) + kind + content


def _reserved_atom(length: int) -> bytes:
    return _atom(b"keyw", _atom(b"data", struct.pack(">II", _UTF8, 0) + b"#" * length))


def _fill_atoms(fd: int, atoms: bytes) -> None:
    if not atoms:
        return
    at, head = _movie_head(fd)
    found = head.find(_reserved_atom(len(atoms) - len(_reserved_atom(0))))
    if found >= 0:
        os.pwrite(fd, atoms, at + found)


def read_tempo(fd: int) -> int | None:
    """Beats a minute out of the atom that ffmpeg writes and does not read."""
    _, head = _movie_head(fd)
    prefix = b"tmpo" + struct.pack(">I4sII", 18, b"data", _WHOLE_NUMBER, 0)
    at = head.find(prefix)
    return int.from_bytes(head[at + len(prefix) :][:2], "big") if at >= 0 else None


def _movie_head(fd: int) -> tuple[int, bytes]:
    """Where the `moov` of an MP4 begins, and the whole of it."""
    for box in boxes_of(fd):
        if box.kind == b"moov" and box.size <= _MOST_HEAD_BYTES:
            return box.begin, os.pread(fd, box.size, box.begin)
    return 0, b""


def _name_flac_comments(fd: int) -> None:
    at, last = 4, False
    while not last:
        head = os.pread(fd, 4, at)
        if len(head) < 4:
            return
        last, length = bool(head[0] & 0x80), int.from_bytes(head[1:], "big")
        if head[0] & 0x7F == 4:
            comments = bytearray(os.pread(fd, length, at + 4))
            _name_comments(comments, 0)
            os.pwrite(fd, comments, at + 4)
            return
        at += 4 + length


def _name_ogg_comments(fd: int) -> None:
    """The second packet; it may lie in several pages, each with a checksum of its own."""
    pages = list(_comment_pages(fd))
    packet = bytearray(b"".join(body for _, _, body in pages))
    prefix = 7 if packet[:7] == b"\x03vorbis" else 8
    if not _name_comments(packet, prefix):
        return
    at = 0
    for offset, head, body in pages:
        named = bytes(packet[at : at + len(body)])
        at += len(body)
        unsummed = head[:22] + bytes(4) + head[26:]
        os.pwrite(fd, head[:22] + _ogg_checksum(unsummed + named).to_bytes(4, "little") + head[26:] + named, offset)


def _comment_pages(fd: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Offset, header and body of each page from the second on, until a packet ends; ffmpeg flushes the page there."""
    at, number = 0, 0
    while True:
        head = os.pread(fd, _OGG_HEADER + 255, at)
        if len(head) < _OGG_HEADER or head[:4] != b"OggS":
            return
        lacing = head[_OGG_HEADER : _OGG_HEADER + head[26]]
        begin = at + _OGG_HEADER + len(lacing)
        if number > 0:
            yield at, head[: _OGG_HEADER + len(lacing)], os.pread(fd, sum(lacing), begin)
            if any(segment < 255 for segment in lacing):
                return
        at, number = begin + sum(lacing), number + 1


def _name_comments(packet: bytearray, at: int) -> bool:
    """Give comments under a stand-in's name their real one, of the same length. True where there were any."""
    real = {other.encode(): key.encode() for key in ("ARTIST", "ALBUMARTIST") for other in stand_ins(key)}
    changed = False
    at += 4 + int.from_bytes(packet[at : at + 4], "little")
    count, at = int.from_bytes(packet[at : at + 4], "little"), at + 4
    for _ in range(count):
        if at + 4 > len(packet):
            break
        length, at = int.from_bytes(packet[at : at + 4], "little"), at + 4
        name = bytes(packet[at : at + length].partition(b"=")[0])
        if name in real:
            packet[at : at + len(name)] = real[name]
            changed = True
        at += length
    return changed


def _ogg_checksum(page: bytes) -> int:
    checksum = 0
    for byte in page:
        checksum = (checksum << 8 & 0xFFFFFFFF) ^ _CHECKSUMS[checksum >> 24 ^ byte]
    return checksum


def _checksum_of(byte: int) -> int:
    value = byte << 24
    for _ in range(8):
        value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
    return value


_CHECKSUMS = tuple(_checksum_of(byte) for byte in range(256))
