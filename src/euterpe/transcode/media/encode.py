"""The entry: one source in, every output out, or an error and nothing."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.command import sound_options
from euterpe.transcode.media.errors import TRUNCATED, MediaError, bad_output, bad_source, truncated
from euterpe.transcode.media.ffmpeg.exit_codes import INVALID_ARGUMENT, INVALID_DATA, error_for_system
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import Pipe
from euterpe.transcode.media.ffmpeg.progress import Meter, OnProgress, PassMeter
from euterpe.transcode.media.ffmpeg.run import Run
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.finishing import finish, finish_thumbnails
from euterpe.transcode.media.kinds import tags, thumbnail
from euterpe.transcode.media.kinds.tag_names import without_gains
from euterpe.transcode.media.prepared import Prepared, check_segments, prepare
from euterpe.transcode.media.probing.cut import forgives_errors
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.media.probing.measuring import measure
from euterpe.transcode.media.probing.probe import probe
from euterpe.transcode.media.probing.verify import TOLERANCE_MS
from euterpe.transcode.media.renditions import Rendition, rendition
from euterpe.transcode.media.results import EncodedOutput
from euterpe.transcode.media.sizes import CheckDisk, OutputSizes
from euterpe.transcode.schema.outputs import AudioOutput, Output, ThumbnailOutput
from euterpe.transcode.schema.presets import AUDIO_PRESETS

PARTIAL_PREFIX = ".partial-"
DECODE_ERRORS = re.compile(
    r"Error (submitting .*to (the )?decoder|while decoding|decoding)|Decoding error|Header missing|"
    r"corrupt (decoded|input)|Invalid data found|invalid new backstep|PCM packet|CRC mismatch"
)
"""What ffmpeg says of packets that it could not decode. It also says harmless things as errors."""
MEASURING_WEIGHT = 0.3
"""What measuring costs beside encoding, roughly."""


async def encode(
    source: Path,
    outputs: Sequence[Output],
    workdir: Path,
    *,
    tools: Tools,
    limits: MediaLimits,
    on_progress: OnProgress = lambda _: None,
    info: MediaInfo | None = None,
    check_disk: CheckDisk = lambda _: None,
) -> list[EncodedOutput]:
    """Files lie in `workdir` under their names when this returns. Whatever else happens, nothing of ours is left there.

    `info` is a probe that the caller made of this very source; `check_disk` is asked while outputs grow. Raises
    MediaError; cancelling kills what runs.
    """
    info = info or await probe(source, tools=tools, limits=limits)
    prepared = prepare(outputs, info)
    check_segments(prepared, limits.max_segments)
    try:
        with _partial_folder(workdir) as folder:
            strict = not forgives_errors(source, info.format)
            run = Run(source=source, info=info, folder=folder, tools=tools, limits=limits, strict=strict)
            made = await _Encoding(run, prepared, on_progress, check_disk).all()
            await asyncio.sleep(0)  # a cancel that came meanwhile is heard before anything is handed over
            return [_hand_over(output, workdir) for output in made]
    except OSError as error:
        raise error_for_system(error) from None  # it names paths


@contextmanager
def _partial_folder(workdir: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=workdir)).absolute()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hand_over(output: EncodedOutput, workdir: Path) -> EncodedOutput:
    """Names of the request come in only here, checked to be plain ones; a folder is an output's own."""
    files = []
    if output.kind == "hls":
        shutil.rmtree(workdir / output.id, ignore_errors=True)
    for file in output.files:
        target = workdir / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        files.append(replace(file, path=file.path.rename(target)))
    return replace(output, files=tuple(files))


class _Encoding:
    """The passes over one source, in order."""

    def __init__(self, run: Run, prepared: Sequence[Prepared], on_progress: OnProgress, check_disk: CheckDisk) -> None:
        self._run = run
        self._sizes = OutputSizes(run, prepared, check_disk)
        self._prepared = prepared
        self._streamed = [each for each in prepared if not isinstance(each.output, ThumbnailOutput)]
        self._measured = [each for each in self._streamed if each.loudness is not None and run.info.audio is not None]
        lengths = [each.span.length_ms for each in self._streamed if each.span.length_ms is not None]
        self._length_ms = max(lengths, default=run.info.duration_ms)
        weights = (MEASURING_WEIGHT * bool(self._measured), 1.0 * bool(self._streamed), 0.02 * len(prepared))
        self._meter = Meter(weights, on_progress)

    async def all(self) -> list[EncodedOutput]:
        for each in self._prepared:
            for name in ("", *each.variants):
                (self._run.folder / each.folder / name).mkdir()
        if self._measured:
            await measure(self._run, self._measured, self._meter.begin_pass(0, self._length_ms))
        finished = {each.id: each for each in await self._encode()} if self._streamed else {}
        self._meter.begin_pass(2, None)
        for each in self._prepared:
            if isinstance(each.output, ThumbnailOutput):
                finished[each.output.id] = await self._thumbnails(each, each.output)
        await self._sizes.check()
        self._meter.finish()
        return [finished[each.output.id] for each in self._prepared]

    async def _encode(self) -> list[EncodedOutput]:
        for each in self._streamed:
            if each.correction is not None:
                each.tags = without_gains(each.tags)
        metadata_arguments, metadata_inputs = await self._metadata_files()
        with ExitStack() as pipes:
            made = []
            for each in self._streamed:
                made.append(rendition(each, self._run.info, metadata_inputs, self._run.limits))
                if (pipe := made[-1].pipe) is not None:
                    pipes.callback(pipe.close)
            took = await self._one_pass(metadata_arguments, made)
        try:
            return [await finish(each, self._run, took) for each in made]
        except MediaError as error:
            if error.code != TRUNCATED or await self._breaks_off():
                raise
            damaged = bad_source("invalid_data", "a part of the source cannot be decoded")
            raise damaged.for_output(error.output_id) from error

    async def _one_pass(self, before: Sequence[str], made: Sequence[Rendition]) -> float:
        open_pipes: list[Pipe] = [each.pipe for each in made if each.pipe is not None]
        began = time.monotonic()
        meter = self._meter.begin_pass(1, self._length_ms)
        try:
            done = await self._run.ffmpeg(
                [*before, *(word for each in made for word in each.arguments)],
                meter=meter,
                pipes=open_pipes,
                check=self._sizes.check_now_and_then,
            )
        except MediaError as error:
            if error.code == INVALID_DATA and await self._breaks_off():
                raise truncated() from error
            if error.code == INVALID_ARGUMENT:
                await self._find_refused_settings()
            raise error.for_output(await self._failed_output()) from error
        await self._sizes.check()
        if DECODE_ERRORS.search(done.stderr):  # that they did not end the run is the format's way
            for each in made:
                each.prepared.warnings.append("source_damaged")
        return round(time.monotonic() - began, 3)

    async def _find_refused_settings(self) -> None:
        """Ask each encoder alone, with a moment of the source, and raise for the output whose settings it refuses."""
        source = self._run.info.audio
        for each in self._streamed:
            if source is None or not isinstance(each.output, AudioOutput):
                continue
            preset, settings = AUDIO_PRESETS[each.output.preset], each.output.audio
            options = sound_options(preset, settings, source, each.span, each.correction)
            try:
                await self._run.ffmpeg(["-map", f"0:{source.index}", *options, "-t", "0.1", "-f", "null", "-"])
            except MediaError as error:
                if error.code != INVALID_ARGUMENT:
                    raise
                message = "the encoder refuses this bit rate with this sample rate and this number of channels"
                raise bad_output("settings_refused", message, each.output.id) from error

    async def _breaks_off(self) -> bool:
        """Whether the packets of the source, read without decoding, end before the length that it declares.

        False: they are all there, and some of them cannot be decoded.
        """
        info = self._run.info
        stream = info.audio or info.video
        if stream is None or info.duration_ms is None or info.duration_estimated:
            return False
        meter = PassMeter(lambda _share, _speed: None, None)
        await self._run.ffmpeg(["-map", f"0:{stream.index}", "-c", "copy", "-f", "null", "-"], meter=meter)
        return meter.reached_ms < (stream.duration_ms or info.duration_ms) - TOLERANCE_MS

    async def _failed_output(self) -> str | None:
        """Which output stopped a run of several: the one that reached its limit, or the only one."""
        suspects = await self._sizes.full() or self._streamed
        return suspects[0].output.id if len(suspects) == 1 else None

    async def _metadata_files(self) -> tuple[list[str], Mapping[int, int]]:
        arguments: list[str] = []
        inputs: dict[int, int] = {}
        covers = await self._cover_files()
        for each in self._streamed:
            muxer = each.muxer
            own = [covers[stream.index] for stream in each.covers if stream.index in covers]
            if not (each.tags or each.chapters or own):
                continue
            name = f"{each.folder}.tags"
            text = await asyncio.to_thread(tags.metadata_file, muxer, each.tags, each.chapters, own)
            await asyncio.to_thread((self._run.folder / name).write_text, text)
            inputs[each.number] = 1 + len(inputs)
            arguments += ["-protocol_whitelist", "file", "-f", "ffmetadata", "-i", name]
        return arguments, inputs

    async def _cover_files(self) -> dict[int, tags.Cover]:
        """The pictures as bytes, for containers that carry them as a tag."""
        carriers = [
            each
            for each in self._streamed
            if isinstance(each.output, AudioOutput)
            and AUDIO_PRESETS[each.output.preset].codec.muxer in tags.COVERS_AS_TAGS
        ]
        wanted = {stream.index: stream for each in carriers for stream in tags.front_first(each.covers)[:1]}
        found: dict[int, tags.Cover] = {}
        for index, stream in wanted.items():
            path = self._run.folder / f"cover-{index}"
            codec = "copy" if stream.codec in tags.MIME else "mjpeg"
            arguments = [
                "-map",
                f"0:{index}",
                "-c:v",
                codec,
                "-frames:v",
                "1",
                "-f",
                "image2",
                "-update",
                "1",
                path.name,
            ]
            try:
                await self._run.ffmpeg(arguments, file_bytes=self._run.limits.max_cover_bytes)
            except MediaError as error:
                if error.category is not Category.PERMANENT:
                    raise
                continue  # sound with a broken picture is still sound; the output will say what it lost
            found[index] = tags.Cover(stream, path.read_bytes())
        return found

    async def _thumbnails(self, prepared: Prepared, output: ThumbnailOutput) -> EncodedOutput:
        began = time.monotonic()
        stream = thumbnail.pictured_stream(output, self._run.info)
        times, warnings = thumbnail.seek_times(output, self._run.info)
        prepared.warnings += warnings
        for number, at_ms in enumerate(times):
            target = f"{prepared.folder}/{number}.{output.format}"
            try:
                await self._run.ffmpeg(
                    [*thumbnail.frame_options(output, stream), target],
                    before_input=thumbnail.seek_options(at_ms, self._run.info),
                )
            except MediaError as error:
                raise error.for_output(output.id) from error
        return await finish_thumbnails(prepared, output, self._run, round(time.monotonic() - began, 3))
