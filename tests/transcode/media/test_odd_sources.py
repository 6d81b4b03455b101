"""Sources that are odd and yet fine: what players play is not refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media

OUTPUTS: tuple[dict[str, object], ...] = (
    {"id": "a", "kind": "audio", "preset": "mp3_320"},
    {"id": "f", "kind": "audio", "preset": "flac"},
    {"id": "w", "kind": "waveform"},
)


def junk(size: int) -> bytes:
    return random.Random(3).randbytes(size)


def made(media: Media, name: str, folder: Path) -> Path:
    """Two seconds each, some of them twice."""
    plain = media.noise("two.mp3", "-b:a", "128k", "-write_xing", "0", seconds=2).read_bytes()
    ogg = media.noise("two.ogg", seconds=2).read_bytes()
    piped = ("-f", "lavfi", "-i", "anoisesrc=d=2:c=pink:r=44100:a=0.3:seed=3")
    bodies = {
        "junk_at_end.mp3": lambda: plain + junk(3000),
        "junk_at_start.mp3": lambda: junk(3000) + plain,
        "joined.mp3": lambda: plain + plain,
        "zeros_at_end.mp3": lambda: plain + bytes(1000),
        "chained.ogg": lambda: ogg + ogg,
        "piped.wav": lambda: media.ffmpeg(*piped, "-f", "wav", "-"),
        "piped.flac": lambda: media.ffmpeg(*piped, "-f", "flac", "-"),
        "piped.mka": lambda: media.ffmpeg(*piped, "-c:a", "libopus", "-f", "matroska", "-"),
        "adts.aac": lambda: media.ffmpeg(*piped, "-f", "adts", "-"),
        "fragments.mp4": lambda: media.ffmpeg(*piped, "-f", "mp4", "-movflags", "frag_keyframe+empty_moov", "-"),
        "float.wav": lambda: media.ffmpeg(*piped, "-c:a", "pcm_f32le", "-f", "wav", "-"),
        "mulaw.au": lambda: media.ffmpeg(*piped, "-c:a", "pcm_mulaw", "-f", "au", "-"),
    }
    path = folder / name
    path.write_bytes(bodies[name]())
    return path


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("junk_at_end.mp3", 2),
        ("junk_at_start.mp3", 2),
        ("joined.mp3", 4),
        ("zeros_at_end.mp3", 2),
        ("chained.ogg", 4),
        ("piped.wav", 2),
        ("piped.flac", 2),
        ("piped.mka", 2),
        ("adts.aac", 2),
        ("fragments.mp4", 2),
        ("float.wav", 2),
        ("mulaw.au", 2),
    ],
)
async def test_a_source_that_players_play_is_encoded_whole(
    name: str, seconds: int, run: Encode, media: Media, tmp_path: Path
) -> None:
    outputs = await run(made(media, name, tmp_path), *OUTPUTS)
    for output in outputs:
        assert output.duration_ms == pytest.approx(seconds * 1000, abs=150), output.id
    said = {warning for output in outputs for warning in output.warnings}
    assert said <= {"source_damaged", "length_differs", "length_unknown"}
    if name in {"junk_at_end.mp3", "joined.mp3"}:
        assert "source_damaged" in said


@pytest.mark.parametrize(("picture_s", "form"), [(1, "mkv"), (3, "mkv"), (3, "mp4")])
async def test_sound_and_picture_need_not_end_together(run: Encode, media: Media, picture_s: int, form: str) -> None:
    source = media.make(
        f"uneven{picture_s}.{form}",
        *("-f", "lavfi", "-i", f"testsrc=d={picture_s}:s=64x64:r=25", "-f", "lavfi", "-i", "sine=d=2:r=48000"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"),
    )
    sound, video, ladder = await run(
        source,
        {"id": "a", "kind": "audio", "preset": "flac"},
        {"id": "v", "kind": "video", "preset": "h264_480p"},
        {"id": "h", "kind": "hls", "variants": [{"preset": "aac_96"}, {"preset": "h264_480p"}]},
    )
    assert sound.duration_ms == pytest.approx(2000, abs=100)
    assert video.duration_ms == pytest.approx(max(2, picture_s) * 1000, abs=100)
    assert ladder.files
