"""From what ffmpeg wrote to what is handed over: read again, measured, named."""

from __future__ import annotations

import asyncio
from pathlib import Path

from euterpe.transcode.media.errors import MediaError, bad_source
from euterpe.transcode.media.ffmpeg.run import Run
from euterpe.transcode.media.kinds import hls, waveform
from euterpe.transcode.media.kinds.loudness import LoudnessReport, missed, report
from euterpe.transcode.media.kinds.tag_frames import put_frames
from euterpe.transcode.media.prepared import Prepared
from euterpe.transcode.media.probing import verify
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.media.probing.measuring import listen
from euterpe.transcode.media.renditions import Rendition, file_of
from euterpe.transcode.media.results import EncodedFile, EncodedOutput
from euterpe.transcode.schema.checking import names_of
from euterpe.transcode.schema.outputs import (
    AudioOutput,
    HlsOutput,
    ThumbnailOutput,
    VideoOutput,
    WaveformOutput,
    kind_of,
)
from euterpe.transcode.schema.presets import AUDIO_PRESETS, VIDEO_PRESETS

PICTURE_DEMUXERS = ("jpeg_pipe", "png_pipe")
PICTURE_TYPES = {"jpg": "image/jpeg", "png": "image/png"}


async def finish(made: Rendition, run: Run, took: float) -> EncodedOutput:
    prepared = made.prepared
    match prepared.output:
        case AudioOutput() | VideoOutput():
            return await _single(made, prepared.output, run, took)
        case HlsOutput():
            return await _ladder(made, prepared.output, run, took)
        case WaveformOutput():
            return await _waveform(made, prepared.output, run, took)
        case _:
            raise AssertionError("thumbnails are finished where they are made")


async def _single(made: Rendition, output: AudioOutput | VideoOutput, run: Run, took: float) -> EncodedOutput:
    prepared = made.prepared
    path = file_of(prepared, run.folder)
    if prepared.tags and path.is_file():
        await asyncio.to_thread(put_frames, path, prepared.muxer, prepared.tags)
    try:
        found = await verify.read_again(path, tools=run.tools, limits=run.limits, output_id=output.id)
    except MediaError:
        if prepared.span.length_ms:
            raise
        raise bad_source("no_samples", "nothing in the source could be decoded") from None
    picture = isinstance(output, VideoOutput)
    codec = "h264" if isinstance(output, VideoOutput) else AUDIO_PRESETS[output.preset].codec.name
    verify.check_stream(found, codec, output.id, picture=picture)
    prepared.warnings += verify.check_length(prepared.span, found.duration_ms, output.id)
    prepared.warnings += verify.lost_metadata(prepared, found)
    content_type = "video/mp4" if isinstance(output, VideoOutput) else AUDIO_PRESETS[output.preset].codec.content_type
    stream = found.video if picture else found.audio
    loudness = await _loudness(prepared, run, path, found)
    return EncodedOutput(
        id=output.id,
        kind=kind_of(output),
        files=(await described(path, names_of(output)[0], content_type),),
        duration_ms=true_length(prepared, found),
        bit_rate=found.bit_rate,
        codec=stream.codec if stream else None,
        sample_rate=found.audio.sample_rate if found.audio else None,
        channels=found.audio.channels if found.audio else None,
        width=found.video.width if found.video else None,
        height=found.video.height if found.video else None,
        loudness=loudness,
        encode_seconds=took,
        warnings=tuple(prepared.warnings),
    )


def true_length(prepared: Prepared, found: MediaInfo) -> int | None:
    """Within the tolerance the length that was asked for: a lossy file may count its encoder's delay and padding."""
    wanted, got = prepared.span.length_ms, found.duration_ms
    if found.audio is not None and found.audio.bits is not None and found.video is None:
        return got
    if wanted is None or got is None or not prepared.span.exact or abs(wanted - got) > verify.TOLERANCE_MS:
        return got
    return wanted


async def _ladder(made: Rendition, output: HlsOutput, run: Run, took: float) -> EncodedOutput:
    prepared = made.prepared
    folder = run.folder / prepared.folder
    variants = [await _variant(folder / name, run, output.id) for name in prepared.variants]
    for variant in variants:
        length_ms = round(variant.seconds * 1000)
        prepared.warnings += verify.check_length(prepared.span, length_ms, output.id)
    (folder / hls.MASTER).write_text(hls.master_playlist(variants))
    paths = [
        folder / hls.MASTER,
        *sorted(path for path in folder.rglob("*") if path.is_file() and path.parent != folder),
    ]
    files = [
        await described(path, f"{output.id}/{path.relative_to(folder).as_posix()}", hls.CONTENT_TYPES[path.suffix])
        for path in paths
    ]
    loudness = report(prepared.measured, prepared.correction, None) if prepared.measured else None
    best = max(variants, key=lambda each: each.average_bandwidth)
    return EncodedOutput(
        id=output.id,
        kind="hls",
        files=tuple(files),
        duration_ms=round(best.seconds * 1000),
        bit_rate=best.average_bandwidth,
        codec=best.codecs,
        width=best.width,
        height=best.height,
        loudness=loudness,
        encode_seconds=took,
        warnings=tuple(dict.fromkeys(prepared.warnings)),
    )


async def _variant(folder: Path, run: Run, output_id: str) -> hls.FinishedVariant:
    """Its beginning is read again as a player would: the init segment and the first one after it."""
    segments = await asyncio.to_thread(hls.read_segments, folder)
    init = await asyncio.to_thread((folder / hls.INIT).read_bytes)
    sample = run.folder / f"{folder.name}.sample"
    await asyncio.to_thread(hls.write_sample, folder, segments[0], sample)
    found = await verify.read_again(sample, tools=run.tools, limits=run.limits, output_id=output_id)
    preset = VIDEO_PRESETS.get(folder.name)
    if preset is not None:
        verify.check_stream(found, "h264", output_id, picture=True)
    if run.info.audio is not None:
        verify.check_stream(found, "aac", output_id, picture=False)
    return hls.FinishedVariant(
        name=folder.name,
        segments=segments,
        codecs=hls.codecs_of(init, picture=preset is not None, sound=run.info.audio is not None),
        width=found.video.width if found.video else None,
        height=found.video.height if found.video else None,
        frame_rate=run.info.video.frame_rate if preset is not None and run.info.video is not None else None,
    )


async def _waveform(made: Rendition, output: WaveformOutput, run: Run, took: float) -> EncodedOutput:
    prepared, peaks = made.prepared, made.peaks
    assert peaks is not None
    assert run.info.audio is not None
    rate = run.info.audio.sample_rate or 44100
    length_ms = round(1000 * peaks.frames / rate)
    prepared.warnings += verify.check_length(prepared.span, length_ms, output.id)
    path = file_of(prepared, run.folder)
    if output.format == "json":
        await asyncio.to_thread(waveform.write_json, path, output, peaks, rate)
    else:
        await asyncio.to_thread(waveform.write_png, path, output, peaks)
    is_picture = output.format == "png"
    return EncodedOutput(
        id=output.id,
        kind="waveform",
        files=(await described(path, names_of(output)[0], "image/png" if is_picture else "application/json"),),
        duration_ms=length_ms,
        sample_rate=rate,
        channels=peaks.channels,
        width=output.width if is_picture else None,
        height=output.height if is_picture else None,
        encode_seconds=took,
        warnings=tuple(prepared.warnings),
    )


async def finish_thumbnails(prepared: Prepared, output: ThumbnailOutput, run: Run, took: float) -> EncodedOutput:
    files = []
    found = None
    for number, name in enumerate(names_of(output)):
        path = run.folder / prepared.folder / f"{number}.{output.format}"
        found = await verify.read_again(
            path, tools=run.tools, limits=run.limits, output_id=output.id, demuxers=PICTURE_DEMUXERS
        )
        files.append(await described(path, name, PICTURE_TYPES[output.format]))
    shown = found.video if found else None
    return EncodedOutput(
        id=output.id,
        kind="thumbnail",
        files=tuple(files),
        codec=shown.codec if shown else None,
        width=shown.width if shown else None,
        height=shown.height if shown else None,
        encode_seconds=took,
        warnings=tuple(prepared.warnings),
    )


async def _loudness(prepared: Prepared, run: Run, path: Path, found: MediaInfo) -> LoudnessReport | None:
    """What a limiter left over is heard in the output itself."""
    if prepared.measured is None:
        return None
    correction, measured = prepared.correction, None
    if correction is not None and correction.mode == "dynamic" and found.audio is not None:
        measured = await listen(run, (), found.audio, prepared.output.id, source=path)
        if missed(correction, measured):
            prepared.warnings.append("loudness_target_missed")
    return report(prepared.measured, correction, measured)


async def described(path: Path, name: str, content_type: str) -> EncodedFile:
    size = (await asyncio.to_thread(path.stat)).st_size
    return EncodedFile(name=name, path=path, content_type=content_type, size_bytes=size)
