"""Time: lengths to the millisecond, sound that begins late or ends early, sources that are cut off, square pixels."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.probe import probe
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media

VIDEO = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac")
FORMS = ("mp4", "mkv", "ts", "mov")


def late_sound(media: Media, form: str) -> Path:
    """Three seconds of picture; a tone from 1.0 to 2.5."""
    first = media.make(
        "late.mp4",
        *("-f", "lavfi", "-i", "testsrc=d=3:s=320x180:r=25", "-itsoffset", "1"),
        *("-f", "lavfi", "-i", "sine=d=1.5:r=48000", *VIDEO),
    )
    return first if form == "mp4" else media.make(f"late.{form}", "-i", str(first), "-c", "copy")


def heard_from(media: Media, path: Path) -> float:
    """When the first loud sample comes, in seconds."""
    samples = array("h", media.samples(path, "-ac", "1", "-ar", "48000"))
    return next(number for number, sample in enumerate(samples) if abs(sample) > 1000) / 48000


@pytest.mark.parametrize("form", FORMS)
async def test_sound_that_begins_late_stays_in_its_place(run: Encode, media: Media, form: str) -> None:
    made = await run(
        late_sound(media, form),
        {"id": "audio", "kind": "audio", "preset": "flac"},
        {"id": "video", "kind": "video", "preset": "h264_480p"},
        {"id": "peaks", "kind": "waveform"},
        {"id": "hls", "kind": "hls", "variants": [{"preset": "aac_96"}, {"preset": "h264_480p"}]},
    )
    audio, video, peaks, ladder = made
    assert audio.duration_ms == pytest.approx(2500, abs=60)
    assert peaks.duration_ms == pytest.approx(2500, abs=60)
    assert video.duration_ms == pytest.approx(3000, abs=60)
    folder = ladder.files[0].path.parent
    playlists = [folder / preset / "index.m3u8" for preset in ("aac_96", "h264_480p")]
    for path in (audio.files[0].path, video.files[0].path, *playlists):
        assert heard_from(media, path) == pytest.approx(1.0, abs=0.05), path.name


@pytest.mark.parametrize("form", FORMS)
async def test_a_trim_leaves_late_sound_in_its_place(run: Encode, media: Media, form: str) -> None:
    trim = {"start_ms": 400, "end_ms": 2000}
    audio, video = await run(
        late_sound(media, form),
        {"id": "audio", "kind": "audio", "preset": "flac", "trim": trim},
        {"id": "video", "kind": "video", "preset": "h264_480p", "trim": trim},
    )
    for made in (audio, video):
        assert made.duration_ms == pytest.approx(1600, abs=60), made.id
        assert heard_from(media, made.files[0].path) == pytest.approx(0.6, abs=0.05), made.id


async def test_a_trim_that_ends_before_the_sound_begins_is_refused(run: Encode, media: Media) -> None:
    output = {"id": "a", "kind": "audio", "preset": "flac", "trim": {"start_ms": 0, "end_ms": 500}}
    with pytest.raises(MediaError) as caught:
        await run(late_sound(media, "mp4"), output)
    assert (caught.value.code, caught.value.output_id) == ("output.trim_outside", "a")


async def test_an_anamorphic_picture_is_shown_in_square_pixels(
    run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    source = media.video("pal.mp4", "-vf", "setsar=64/45", size="720x576", seconds=1)
    video, ladder, thumb = await run(
        source,
        {"id": "v", "kind": "video", "preset": "h264_480p"},
        {"id": "h", "kind": "hls", "variants": [{"preset": "h264_480p"}]},
        {"id": "t", "kind": "thumbnail", "width": 512},
    )
    assert (video.width, video.height) == (854, 480)
    assert (ladder.width, ladder.height) == (854, 480)
    assert (thumb.width, thumb.height) == (512, 288)
    shown = (await probe(video.files[0].path, tools=tools, limits=limits)).video
    assert shown is not None
    assert shown.pixel_shape == 1.0


@pytest.mark.parametrize("name", ["exact.flac", "exact.wav", "exact.m4a", "exact.opus", "exact.ogg", "exact.mp3"])
async def test_lengths_are_exact_to_the_millisecond(
    name: str, run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    source = media.tone(name, seconds=1.2347, rate=48000)
    assert (await probe(source, tools=tools, limits=limits)).duration_ms == pytest.approx(1235, abs=1)
    outputs = await run(
        source, *({"id": each, "kind": "audio", "preset": each} for each in ("flac", "mp3_320", "opus_96", "aac_256"))
    )
    # The edit list of an MP4 that ffmpeg makes is in milliseconds, and its decoder keeps two of the padding.
    assert [output.duration_ms for output in outputs] == pytest.approx([1235] * 4, abs=2 if name == "exact.m4a" else 1)


def cut(source: Path, share: float, folder: Path) -> Path:
    path = folder / f"cut-{source.name}"
    path.write_bytes(source.read_bytes()[: int(source.stat().st_size * share)])
    return path


def made(media: Media, name: str) -> Path:
    match name:
        case "fast.mp4":
            return media.video(name, "-movflags", "+faststart", seconds=4)
        case "plain.mp4" | "cut.mkv":
            return media.video(name, seconds=4)
        case "fast.m4a":
            return media.noise(name, "-movflags", "+faststart", seconds=4)
        case _:
            return media.noise(name, seconds=4)


@pytest.mark.parametrize("share", [0.5, 0.65, 0.93])
@pytest.mark.parametrize(
    "name", ["fast.mp4", "plain.mp4", "fast.m4a", "plain.m4a", "cut.flac", "cut.mp3", "cut.wav", "cut.aiff", "cut.ogg"]
)
async def test_a_source_that_breaks_off_is_called_truncated(
    name: str, share: float, run: Encode, media: Media, tmp_path: Path
) -> None:
    source = cut(made(media, name), share, tmp_path)
    outputs: list[dict[str, object]] = [{"id": "a", "kind": "audio", "preset": "mp3_320"}]
    if name.endswith("mp4"):
        outputs.append({"id": "v", "kind": "video", "preset": "h264_480p"})
    with pytest.raises(MediaError) as caught:
        await run(source, *outputs)
    assert (caught.value.code, caught.value.category) == ("media.truncated", Category.PERMANENT)


def wav(data: bytes, *, bits: int = 16, channels: int = 1, padded: bool = False) -> bytes:
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", 1, channels, 8000, 8000 * block, block, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    body += b"\0" if padded and len(data) % 2 else b""
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        wav(bytes(16001)),
        wav(bytes(16001), padded=True),
        wav(bytes(24003), bits=24),
        wav(bytes(8001), bits=8, padded=True),
        wav(bytes(32003), channels=2),
    ],
    ids=["half a sample", "half a sample, padded", "24 bits, odd", "8 bits, odd", "half a frame"],
)
async def test_a_wav_with_an_odd_size_is_encoded(body: bytes, run: Encode, tmp_path: Path) -> None:
    source = tmp_path / "odd.wav"
    source.write_bytes(body)
    (output,) = await run(source, {"id": "a", "kind": "audio", "preset": "flac"})
    assert output.duration_ms == pytest.approx(1000, abs=1)
