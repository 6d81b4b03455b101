"""Sound by every preset: right codec, rate, channels, depth and length."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.probing.probe import probe
from euterpe.transcode.schema.presets import AUDIO_PRESETS
from tests.transcode.media.conftest import Encode
from tests.transcode.media.making import Media, listed

LOSSY = [name for name, preset in AUDIO_PRESETS.items() if not preset.codec.lossless]
LOSSLESS = [name for name, preset in AUDIO_PRESETS.items() if preset.codec.lossless]


def audio(preset: str, **more: object) -> dict[str, object]:
    return {"id": preset, "kind": "audio", "preset": preset, **more}


async def test_all_presets_come_out_of_one_run_with_their_codec_and_length(
    run: Encode, media: Media, workdir: Path
) -> None:
    made = await run(media.tone("tone.flac", "-sample_fmt", "s16"), *(audio(name) for name in AUDIO_PRESETS))
    for output, (name, preset) in zip(made, AUDIO_PRESETS.items(), strict=True):
        assert output.id == name
        assert output.codec is not None
        assert output.codec.startswith(preset.codec.name), name
        assert output.duration_ms == 1000, name
        assert output.sample_rate == (48000 if preset.codec.name == "opus" else 44100), name
        assert output.channels == min(2, preset.max_channels), name
        assert output.warnings == (), name
        (file,) = output.files
        assert file.path == workdir / f"{name}.{preset.codec.extensions[0]}"
        assert file.path.stat().st_size == file.size_bytes > 0
        assert file.path.stat().st_size == file.size_bytes
        assert file.content_type == preset.codec.content_type
    assert len({output.encode_seconds for output in made}) == 1, "one pass made them all"
    assert len(listed(workdir)) == len(made)


@pytest.mark.parametrize("bitrate", [320, 128])
async def test_a_bit_rate_is_kept(run: Encode, media: Media, bitrate: int) -> None:
    (made,) = await run(media.noise("noise3.wav", seconds=3), audio(f"mp3_{bitrate}"))
    assert made.bit_rate == pytest.approx(bitrate * 1000, rel=0.03)


async def test_options_of_the_request_go_before_the_preset(run: Encode, media: Media) -> None:
    wanted = {"bitrate_kbps": 96, "sample_rate": 22050, "channels": 1}
    (made,) = await run(media.tone("tone3.wav", seconds=3), audio("mp3_320", audio=wanted))
    assert (made.sample_rate, made.channels) == (22050, 1)
    assert made.bit_rate == pytest.approx(96_000, rel=0.05)


@pytest.mark.parametrize("bits", [16, 24])
async def test_lossless_to_lossless_keeps_every_sample(run: Encode, media: Media, bits: int) -> None:
    source = media.noise(f"noise{bits}.wav", "-c:a", f"pcm_s{bits}le")
    kept = [name for name in LOSSLESS if (AUDIO_PRESETS[name].bits or bits) >= bits]
    made = await run(source, *(audio(name) for name in kept))
    for output in made:
        assert media.samples_md5(output.files[0].path) == media.samples_md5(source), output.id
    (again,) = await run(made[0].files[0].path, audio("alac", filename="again.m4a"))
    assert media.samples_md5(again.files[0].path) == media.samples_md5(source)


async def test_the_depth_of_a_source_is_kept_and_a_lower_one_is_dithered(
    run: Encode, media: Media, tools: Tools, limits: MediaLimits
) -> None:
    source = media.tone("hires.flac", "-sample_fmt", "s32", "-ar", "96000", rate=96000)
    names = ["flac", "flac_24", "alac", "wav_24", "wav_16", "mp3_320", "aac_256", "opus_160"]
    made = {output.id: output for output in await run(source, *(audio(name) for name in names))}
    bits = {}
    for name, output in made.items():
        stream = (await probe(output.files[0].path, tools=tools, limits=limits)).audio
        assert stream is not None
        bits[name] = stream.bits
    assert {name: bits[name] for name in names[:5]} == {
        "flac": 24,
        "flac_24": 24,
        "alac": 24,
        "wav_24": 24,
        "wav_16": 16,
    }
    rates = {name: output.sample_rate for name, output in made.items()}
    assert {rates[name] for name in names[:5]} == {96000}
    assert {rates[name] for name in names[5:]} == {48000}
    # A dithered sample is off by a little and never by more than a step or two.
    exact = struct.unpack("<192000i", media.samples(source, form="s32le"))
    coarse = struct.unpack("<192000i", media.samples(made["wav_16"].files[0].path, form="s32le"))
    steps = [(low - high) / 65536 for low, high in zip(coarse, exact, strict=True)]
    assert max(map(abs, steps)) < 2.5
    assert len({round(step, 2) for step in steps}) > 100, "noise, and not the pattern of cut-off bits"


async def test_five_channels_and_one_stay_in_lossless_and_become_two_in_small_files(run: Encode, media: Media) -> None:
    source = media.tone("surround.wav", "-af", "pan=5.1|c0=c0|c1=c1|c2=c0|c3=c0|c4=c0|c5=c1", rate=48000)
    asked = audio("aac_256", id="six", audio={"channels": 6, "bitrate_kbps": 384})
    made = await run(source, *(audio(name) for name in AUDIO_PRESETS), asked)
    channels = {output.id: output.channels for output in made}
    assert {channels[name] for name in LOSSLESS} == {6}
    assert {channels[name] for name in LOSSY} == {1, 2}
    assert channels["six"] == 6
    for output in made:
        if output.id in LOSSLESS and output.id != "wav_16":
            assert media.samples_md5(output.files[0].path, "s16le") == media.samples_md5(source, "s16le"), output.id


@pytest.mark.parametrize("preset", ["wav_16", "flac", "mp3_320", "ogg_q5"])
async def test_a_trim_is_exact_to_the_sample(run: Encode, media: Media, preset: str) -> None:
    trim = {"start_ms": 250, "end_ms": 1750, "fade_in_ms": 100, "fade_out_ms": 200}
    (made,) = await run(media.tone("tone3.wav", seconds=3), audio(preset, trim=trim))
    assert made.duration_ms == 1500
    samples = media.samples(made.files[0].path)
    assert len(samples) == 1500 * 44100 // 1000 * 2 * 2


async def test_fades_begin_and_end_in_silence_and_leave_the_middle_alone(run: Encode, media: Media) -> None:
    source = media.tone("tone3.wav", seconds=3)
    trim = {"start_ms": 1000, "end_ms": 2000, "fade_in_ms": 200, "fade_out_ms": 300}
    (made,) = await run(source, audio("wav_24", trim=trim))
    faded = struct.unpack("<88200i", media.samples(made.files[0].path, form="s32le"))
    plain = struct.unpack("<264600i", media.samples(source, form="s32le"))[88200 : 2 * 88200]

    def loudest(values: tuple[int, ...], start_ms: int, end_ms: int) -> int:
        return max(map(abs, values[start_ms * 88 : end_ms * 88]))

    assert loudest(faded, 0, 5) < loudest(plain, 0, 5) / 10
    assert loudest(faded, 995, 1000) < loudest(plain, 995, 1000) / 10
    assert loudest(faded, 300, 600) == pytest.approx(loudest(plain, 300, 600), rel=0.001)
    assert loudest(faded, 90, 110) == pytest.approx(loudest(plain, 90, 110) / 2, rel=0.15)


async def test_a_trim_that_starts_after_the_end_is_an_error_of_its_output(run: Encode, media: Media) -> None:
    with pytest.raises(MediaError, match="after the end") as caught:
        await run(media.tone("tone.wav"), audio("flac"), audio("mp3_320", trim={"start_ms": 1000}))
    assert (caught.value.code, caught.value.output_id) == ("output.trim_outside", "mp3_320")


async def test_a_trim_beyond_the_end_ends_there_and_says_so(run: Encode, media: Media) -> None:
    (made,) = await run(media.tone("tone.wav"), audio("flac", trim={"start_ms": 500, "end_ms": 5000}))
    assert made.duration_ms == 500
    assert made.warnings == ("trim_beyond_end",)


@pytest.mark.parametrize("preset", ["mp3_320", "mp3_v0", "aac_256", "opus_96"])
async def test_gapless_length_survives_lossy_coding(run: Encode, media: Media, preset: str) -> None:
    """44,100 samples and one odd one: no encoder's frame fits that."""
    source = media.tone("odd.wav", "-af", "atrim=end_sample=44101", seconds=2)
    (made,) = await run(source, audio(preset))
    path = made.files[0].path
    if preset == "aac_256":
        # ffmpeg's own decoder plays the padding; the edit list is what players follow.
        assert _edit_list(path) == (44101, 1024, 44101 + 1024)
        return
    expected = 44101 if preset != "opus_96" else round(44101 * 48000 / 44100)
    assert abs(len(media.samples(path)) // 4 - expected) <= (0 if preset != "opus_96" else 1)


def _edit_list(path: Path) -> tuple[int, int, int]:
    """Length and first sample by the edit list, and samples in all; in units of a sample."""
    data = path.read_bytes()
    listed_at = data.index(b"elst") + 4
    count, length, start = struct.unpack(">IIi", data[listed_at + 4 : listed_at + 16])
    assert count == 1
    times_at = data.index(b"stts") + 4
    (entries,) = struct.unpack(">I", data[times_at + 4 : times_at + 8])
    times = struct.iter_unpack(">II", data[times_at + 8 : times_at + 8 + 8 * entries])
    return length, start, sum(many * each for many, each in times)
