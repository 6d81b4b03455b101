"""The entry: one source in, every output out, or an error and nothing."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError, bad_output
from euterpe.transcode.media.ffmpeg.exit_codes import error_for_system
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import Pipe
from euterpe.transcode.media.ffmpeg.progress import Meter, OnProgress
from euterpe.transcode.media.ffmpeg.run import Run
from euterpe.transcode.media.ffmpeg.source import forgives_errors
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.finishing import finish, finish_thumbnails
from euterpe.transcode.media.kinds import tags, thumbnail
from euterpe.transcode.media.prepared import Prepared, prepare
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.media.probing.measuring import measure
from euterpe.transcode.media.probing.probe import probe
from euterpe.transcode.media.renditions import Rendition, rendition
from euterpe.transcode.media.results import EncodedOutput
from euterpe.transcode.schema.outputs import AudioOutput, Output, ThumbnailOutput
from euterpe.transcode.schema.presets import AUDIO_PRESETS

PARTIAL_PREFIX = ".partial-"
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
) -> list[EncodedOutput]:
    """Files lie in `workdir` under their names when this returns. Whatever else happens, nothing of ours is left there.

    `info` is a probe that the caller made of this very source. Raises MediaError; cancelling kills what runs.
    """
    info = info or await probe(source, tools=tools, limits=limits)
    prepared = prepare(outputs, info)
    try:
        with _partial_folder(workdir) as folder:
            strict = not forgives_errors(source, info.format)
            run = Run(source=source, info=info, folder=folder, tools=tools, limits=limits, strict=strict)
            made = await _Encoding(run, prepared, on_progress).all()
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

    def __init__(self, run: Run, prepared: Sequence[Prepared], on_progress: OnProgress) -> None:
        self._run = run
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
        self._meter.finish()
        return [finished[each.output.id] for each in self._prepared]

    async def _encode(self) -> list[EncodedOutput]:
        metadata_arguments, metadata_inputs = await self._metadata_files()
        with ExitStack() as pipes:
            made = []
            for each in self._streamed:
                made.append(rendition(each, self._run.info, metadata_inputs, self._run.limits))
                if (pipe := made[-1].pipe) is not None:
                    pipes.callback(pipe.close)
            took = await self._one_pass(metadata_arguments, made)
        return [await finish(each, self._run, took) for each in made]

    async def _one_pass(self, before: Sequence[str], made: Sequence[Rendition]) -> float:
        open_pipes: list[Pipe] = [each.pipe for each in made if each.pipe is not None]
        began = time.monotonic()
        meter = self._meter.begin_pass(1, self._length_ms)
        try:
            done = await self._run.ffmpeg(
                [*before, *(word for each in made for word in each.arguments)],
                meter=meter,
                pipes=open_pipes,
                check=self._hold_sizes,
            )
        except MediaError as error:
            raise error.for_output(self._failed_output()) from error
        self._hold_sizes()
        if done.stderr.strip():  # only errors are said there; that they did not end the run is the format's way
            for each in made:
                each.prepared.warnings.append("source_damaged")
        return round(time.monotonic() - began, 3)

    def _hold_sizes(self) -> None:
        """The kernel bounds each file; many files of one output are bounded here."""
        for each in self._streamed:
            if self._size(each) > self._run.output_bytes:
                raise bad_output("too_large", "the output grew beyond its limit", each.output.id)

    def _size(self, each: Prepared) -> int:
        folder = self._run.folder / each.folder
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def _failed_output(self) -> str | None:
        """Which output stopped a run of several: the one that reached its limit, or the only one."""
        full = [each for each in self._streamed if self._size(each) >= self._run.output_bytes]
        suspects = full or self._streamed
        return suspects[0].output.id if len(suspects) == 1 else None

    async def _metadata_files(self) -> tuple[list[str], Mapping[int, int]]:
        arguments: list[str] = []
        inputs: dict[int, int] = {}
        covers = await self._cover_files()
        for each in self._streamed:
            muxer = AUDIO_PRESETS[each.output.preset].codec.muxer if isinstance(each.output, AudioOutput) else "mp4"
            own = [covers[stream.index] for stream in each.covers if stream.index in covers]
            if not (each.tags or each.chapters or own):
                continue
            name = f"{each.folder}.tags"
            (self._run.folder / name).write_text(tags.metadata_file(muxer, each.tags, each.chapters, own))
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
