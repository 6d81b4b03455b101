"""What a lossless output keeps, and that it refuses or says what it cannot keep; settings that an encoder refuses."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.encode import DECODE_ERRORS
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.probe import probe
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media


def audio(preset: str, **more: object) -> dict[str, object]:
    return {"id": preset, "kind": "audio", "preset": preset, **more}


def with_channels(media: Media, layout: str, count: int) -> Path:
    tones = "|".join(f"0.1*sin({200 + 100 * number}*2*PI*t)" for number in range(count))
    source = f"aevalsrc={tones}:d=1:s=48000:c={layout}"
    name = f"{layout.replace('(', '-').replace(')', '')}.wav"
    return media.make(name, "-f", "lavfi", "-i", source, "-c:a", "pcm_s16le")


@pytest.mark.parametrize(("layout", "count"), [("7.1", 8), ("2.1", 3), ("quad", 4)])
async def test_alac_refuses_channels_that_it_would_mix(run: Encode, media: Media, layout: str, count: int) -> None:
    source = with_channels(media, layout, count)
    with pytest.raises(MediaError) as caught:
        await run(source, audio("alac"))
    assert (caught.value.code, caught.value.output_id) == ("output.channels_not_supported", "alac")
    assert layout in caught.value.message
    (asked,) = await run(source, audio("alac", audio={"channels": 2}))
    assert asked.channels == 2


@pytest.mark.parametrize(("layout", "count"), [("7.1", 8), ("2.1", 3), ("5.1(side)", 6), ("5.1", 6), ("quad", 4)])
async def test_every_channel_stays_in_flac_and_wav(run: Encode, media: Media, layout: str, count: int) -> None:
    source = with_channels(media, layout, count)
    presets = ["flac", "wav_16", *(["alac"] if layout.startswith("5.1") else [])]
    for output in await run(source, *(audio(preset) for preset in presets)):
        assert output.channels == count
        assert media.samples_md5(output.files[0].path, "s16le") == media.samples_md5(source, "s16le"), output.id


@pytest.mark.parametrize("preset", ["opus_160", "aac_256", "ogg_q5"])
@pytest.mark.parametrize("layout", ["5.1(side)", "5.1"])
async def test_six_channels_go_into_every_lossy_codec(run: Encode, media: Media, preset: str, layout: str) -> None:
    (output,) = await run(with_channels(media, layout, 6), audio(preset, audio={"channels": 6}))
    assert output.channels == 6


async def test_32_bits_become_24_with_dither(run: Encode, media: Media) -> None:
    """A tone below the last of 24 bits: cut off it is a square or nothing, with dither it is noise around it."""
    quiet = "aevalsrc=sin(440*2*PI*t)/16777216:d=1:s=48000"
    source = media.make("quiet.wav", "-f", "lavfi", "-i", quiet, "-c:a", "pcm_s32le")
    for output in await run(source, audio("flac"), audio("wav_24")):
        samples = array("i", media.samples(output.files[0].path, form="s32le"))
        assert all(sample % 256 == 0 for sample in samples)
        assert len({sample // 256 for sample in samples}) >= 3, output.id


async def test_high_rates_are_kept(run: Encode, media: Media) -> None:
    source = media.tone("dxd.wav", "-c:a", "pcm_s24le", seconds=0.2, rate=384000)
    for output in await run(source, audio("flac"), audio("wav_24"), audio("alac")):
        assert (output.sample_rate, output.warnings) == (384000, ()), output.id
    higher = media.tone("higher.wav", "-c:a", "pcm_s24le", seconds=0.2, rate=705600)
    (lowered,) = await run(higher, audio("flac"))
    assert (lowered.sample_rate, lowered.warnings) == (352800, ("sample_rate_lowered",))


def dsf(seconds: int = 1) -> bytes:
    """DSD64 in stereo, its bits in turns: silence."""
    blocks = 352800 * seconds // 4096
    samples = blocks * 4096 * 8
    data = b"\x69" * (blocks * 4096 * 2)
    form = struct.pack("<4sQIIIIIIQII", b"fmt ", 52, 1, 0, 2, 2, 2822400, 1, samples, 4096, 0)
    body = form + struct.pack("<4sQ", b"data", 12 + len(data)) + data
    return struct.pack("<4sQQQ", b"DSD ", 28, 28 + len(body), 0) + body


async def test_dsd_becomes_24_bits_at_a_rate_that_holds_its_sound(
    run: Encode, tmp_path: Path, tools: Tools, limits: MediaLimits
) -> None:
    source = tmp_path / "one.dsf"
    source.write_bytes(dsf())
    (output,) = await run(source, audio("flac"))
    stream = (await probe(output.files[0].path, tools=tools, limits=limits)).audio
    assert stream is not None
    assert (stream.bits, stream.sample_rate) == (24, 176400)
    assert output.duration_ms == pytest.approx(1000, abs=15)


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("opus_160", {"bitrate_kbps": 400, "channels": 1}),
        ("ogg_q5", {"bitrate_kbps": 400, "channels": 1}),
        ("ogg_q5", {"bitrate_kbps": 192, "sample_rate": 8000}),
    ],
)
async def test_settings_that_an_encoder_refuses_are_told_of_their_output(
    run: Encode, media: Media, preset: str, settings: dict[str, object]
) -> None:
    with pytest.raises(MediaError) as caught:
        await run(media.tone("tone.wav"), audio("mp3_320"), audio(preset, audio=settings))
    error = caught.value
    assert (error.code, error.category, error.output_id) == ("output.settings_refused", Category.PERMANENT, preset)


async def test_chained_opus_is_encoded_whole(run: Encode, media: Media, tmp_path: Path) -> None:
    one, two = (media.noise(f"{serial}.opus", "-serial_offset", serial, seconds=2) for serial in ("5", "7777"))
    source = tmp_path / "chained.opus"
    source.write_bytes(one.read_bytes() + two.read_bytes())
    for output in await run(source, audio("flac"), audio("mp3_320"), audio("opus_96")):
        assert output.duration_ms == pytest.approx(4000, abs=60), output.id
    (late,) = await run(source, audio("wav_16", trim={"start_ms": 3000, "end_ms": 3500}))
    assert late.duration_ms == 500


@pytest.mark.parametrize(
    ("line", "damaged"),
    [
        ("[mp3float @ 0x1] Header missing\n", True),
        ("[aist#0:0/mp3 @ 0x1] [dec:mp3float @ 0x2] Error submitting packet to decoder: Invalid data found\n", True),
        ("[aist#0:0/aac @ 0x1] Error while decoding stream #0:0: Operation not permitted\n", True),
        ("[mov,mp4 @ 0x1] Could not find codec parameters for stream 1\n", False),
        ("[mp3 @ 0x1] Application provided duration: 7 / timestamp: 8 is out of range for mov/mp4 format\n", False),
        ("", False),
    ],
)
def test_only_packets_that_could_not_be_decoded_are_damage(line: str, damaged: bool) -> None:
    assert bool(DECODE_ERRORS.search(line)) is damaged


@pytest.mark.parametrize("name", ["long.flac", "long.m4a"])
async def test_packets_that_cannot_be_decoded_fail_the_job(
    name: str, run: Encode, media: Media, tmp_path: Path
) -> None:
    """Of the MP4 so little is lost that only the decoder tells."""
    body = bytearray(media.noise(name, seconds=4).read_bytes())
    spoilt = 3000 if name == "long.flac" else 60
    body[len(body) // 2 : len(body) // 2 + spoilt] = b"\xff" * spoilt
    source = tmp_path / name
    source.write_bytes(body)
    with pytest.raises(MediaError) as caught:
        await run(source, audio("flac"))
    assert caught.value.code == "media.invalid_data"
