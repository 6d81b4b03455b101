"""Files that want to harm: each by a name that says how."""

from __future__ import annotations

import gzip
import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.transcode.media.making import Media


def scripts(canary: Path, port: int) -> dict[str, bytes]:
    """Texts that some demuxer takes for a list of things to open."""
    here, url = str(canary), f"http://127.0.0.1:{port}/x.wav"
    texts = {
        "concat.ffconcat": f"ffconcat version 1.0\nfile '{here}'\nfile '{here}'\n",
        "concat_relative.txt": f"ffconcat version 1.0\nfile '{canary.name}'\n",
        "concat_url.txt": f"ffconcat version 1.0\nfile '{url}'\n",
        "concat_as_wav.wav": f"ffconcat version 1.0\nfile 'file:{here}'\n",
        "hls_file.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{here}\n#EXT-X-ENDLIST\n",
        "hls_path.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{here}\n#EXT-X-ENDLIST\n",
        "hls_relative.mp3": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{canary.name}\n#EXT-X-ENDLIST\n",
        "hls_http.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{url}\n#EXT-X-ENDLIST\n",
        "hls_key.m3u8": f'#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{url}"\n#EXTINF:1,\n{here}\n#EXT-X-ENDLIST\n',
        "hls_concat.m3u8": f"#EXTM3U\n#EXTINF:1,\nconcat:{url}|{here}\n#EXT-X-ENDLIST\n",
        "hls_data.m3u8": "#EXTM3U\n#EXTINF:1,\ndata:audio/wav;base64,UklGRg==\n#EXT-X-ENDLIST\n",
        "hls_crypto.m3u8": f"#EXTM3U\n#EXTINF:1,\ncrypto+file:{here}\n#EXT-X-ENDLIST\n",
        "hls_subfile.m3u8": f"#EXTM3U\n#EXTINF:1,\nsubfile,,start,0,end,99,,:{here}\n#EXT-X-ENDLIST\n",
        "master.m3u8": f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{url}\n",
        "plain.m3u": f"{here}\n{url}\n",
        "list.pls": f"[playlist]\nFile1={url}\nFile2=file://{here}\nNumberOfEntries=2\n",
        "list.asx": f'<asx version="3.0"><entry><ref href="{url}"/></entry></asx>',
        "list.xspf": f'<?xml version="1.0"?><playlist><trackList><track><location>{url}</location></track></trackList>'
        "</playlist>",
        "dash.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
        '<AdaptationSet mimeType="audio/mp4"><Representation id="1" bandwidth="1">'
        f"<BaseURL>{url}</BaseURL></Representation>"
        "</AdaptationSet></Period></MPD>",
        "imf.xml": f'<?xml version="1.0"?><CompositionPlaylist><Asset>{here}</Asset></CompositionPlaylist>',
        "smooth.ism": f'<?xml version="1.0"?><SmoothStreamingMedia><x>{url}</x></SmoothStreamingMedia>',
        "session.sdp": f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n",
        "rtsp.txt": f"rtsptext\nrtsp://127.0.0.1:{port}/x\n",
        "picture.svg": f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}"/><image href="file://{here}"/></svg>',
        "entity.svg": f'<!DOCTYPE s [<!ENTITY x SYSTEM "file://{here}">]><svg xmlns="http://www.w3.org/2000/svg">&x;</svg>',
        "subtitles.srt": "1\n00:00:00,000 --> 00:00:01,000\nhello\n",
        "subtitles.ass": "[Script Info]\nScriptType: v4.00+\n[Events]\n"
        "Dialogue: 0,0:00:00.00,0:00:01.00,x,,0,0,0,,hi\n",
        "tags.ffmeta": ";FFMETADATA1\ntitle=x\n",
        "ansi.txt": "\x1b[2J\x1b[31mhello\x1b[0m\n" * 50,
        "graph.lavfi": f"amovie={here}",
        "page.html": f'<html><audio src="{url}"></audio></html>',
        "vobsub.idx": f"# VobSub index file, v7\nid: en, index: 0\ntimestamp: 00:00:00:000, filepos: 0\n{here}\n",
    }
    return {name: text.encode() for name, text in texts.items()}


def blobs() -> dict[str, bytes]:
    """Bytes that are no media at all, or only say that they are."""
    noise = random.Random(7)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("bomb.wav", bytes(20_000_000))
    return {
        "empty.wav": b"",
        "one_byte.mp3": b"\xff",
        "zeros.mp4": bytes(1_000_000),
        "random.mp3": noise.randbytes(300_000),
        "random.flac": b"fLaC" + noise.randbytes(100_000),
        "random.ogg": b"OggS" + noise.randbytes(100_000),
        "random.mkv": b"\x1a\x45\xdf\xa3" + noise.randbytes(100_000),
        "random.avi": b"RIFF\xff\xff\xff\x7fAVI " + noise.randbytes(100_000),
        "random.mp4": b"\x00\x00\x00\x20ftypisom" + noise.randbytes(100_000),
        "bomb.zip": archive.getvalue(),
        "bomb.gz": gzip.compress(bytes(20_000_000)),
        "program.elf": b"\x7fELF\x02\x01\x01" + bytes(2000),
        "paper.pdf": b"%PDF-1.7\n1 0 obj << /Type /Catalog >> endobj\n" * 20,
        "huge_picture.png": png(60_000, 60_000),
        "picture.gif": b"GIF89a\xff\xff\xff\xff\x80\x00\x00" + bytes(100) + b";",
        "no_channels.wav": wav(channels=0),
        "too_many_channels.wav": wav(channels=65535),
        "no_rate.wav": wav(rate=0),
        "no_data.wav": wav(data=b""),
        "unknown_codec.wav": wav(codec=0x7777),
        "deep_boxes.mp4": deep_boxes(2000),
        "endless_box.mp4": b"\x00\x00\x00\x18ftypM4A \x00\x00\x02\x00M4A isom" + b"\x00\x00\x00\x01moov" + b"\xff" * 8,
        "id3_without_end.mp3": b"ID3\x03\x00\x00\x7f\x7f\x7f\x7f" + bytes(100_000),
        "flac_of_nothing.flac": b"fLaC\x80\x00\x00\x22" + bytes(34),
    }


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(3_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def wav(*, channels: int = 2, rate: int = 44100, codec: int = 1, data: bytes = bytes(4000)) -> bytes:
    form = struct.pack("<HHIIHH", codec, channels, rate, rate * channels * 2 % 2**32, (channels * 2) % 65536, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def deep_boxes(depth: int) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = struct.pack(">I", len(inner) + 8) + b"moov" + inner
    return b"\x00\x00\x00\x18ftypM4A \x00\x00\x02\x00M4A isom" + inner


def broken(media: Media) -> dict[str, bytes]:
    """Real media, cut off or spoilt."""
    half: Callable[[Path], bytes] = lambda path: path.read_bytes()[: path.stat().st_size // 2]  # noqa: E731 - a word
    tone = media.tone("long.wav", seconds=4).read_bytes()
    flac = media.noise("long.flac", seconds=4).read_bytes()
    spoilt = bytearray(flac)
    spoilt[len(flac) // 2 : len(flac) // 2 + 3000] = bytes(3000)
    flipped = bytearray(flac)
    flipped[len(flac) // 2] ^= 0x10
    return {
        "flipped.flac": bytes(flipped),
        "cut.wav": tone[: len(tone) // 2],
        "cut.flac": flac[: len(flac) // 2],
        "spoilt.flac": bytes(spoilt),
        "cut.mp3": half(media.tone("long.mp3", "-b:a", "192k", seconds=4)),
        "cut.m4a": half(media.tone("long.m4a", seconds=4)),
        "cut_faststart.m4a": half(media.tone("fast.m4a", "-movflags", "+faststart", seconds=4)),
        "cut.ogg": half(media.noise("long.ogg", seconds=4)),
        "cut.opus": half(media.noise("long.opus", seconds=4)),
        "cut.aiff": half(media.tone("long.aiff", seconds=4)),
        "cut.mkv": half(media.tone("long.mka", "-c:a", "flac", seconds=4)),
        "cut_video.mp4": half(media.video("fast.mp4", "-movflags", "+faststart", seconds=2)),
        "cut_video.mkv": half(media.video("long.mkv", seconds=2)),
        "header_only.flac": flac[:8000],
    }
