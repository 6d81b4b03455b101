"""Whether the `outputs` of a request can be made at all: every problem, before anything is fetched."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from euterpe.transcode.schema.outputs import (
    KINDS,
    AudioOutput,
    AudioSettings,
    HlsOutput,
    Output,
    Tags,
    ThumbnailOutput,
    Trim,
    VideoOutput,
    WaveformOutput,
)
from euterpe.transcode.schema.presets import AUDIO_PRESETS, HLS_CODECS, VIDEO_PRESETS, AudioPreset
from euterpe.transcode.schema.reading import FieldProblem, escaped, read

MAX_OUTPUTS = 50
MAX_SEGMENTS_PER_SECOND = 10
"""Of all HLS outputs of a request, for each second of the source: ten variants with segments of a second."""
MAX_NAME_BYTES = 200
MAX_TAGS = 100
MAX_TAG_CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class OutputProblem:
    """`problem.pointer` is relative to the output with this index; the index is None for the array itself."""

    index: int | None
    problem: FieldProblem

    @property
    def pointer(self) -> str:
        """Relative to the array."""
        return self.problem.pointer if self.index is None else f"/{self.index}{self.problem.pointer}"


def read_outputs(raw: object, ignore: Collection[str] = ()) -> tuple[tuple[Output, ...], tuple[OutputProblem, ...]]:
    """The outputs, and all that is wrong with them. They may be used only where no problem was found."""
    if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_OUTPUTS:
        return (), (
            OutputProblem(None, FieldProblem("", "invalid", f"a list of 1 to {MAX_OUTPUTS} outputs is expected")),
        )
    outputs: list[tuple[int, Output]] = []
    found: list[OutputProblem] = []
    for index, each in enumerate(raw):
        output, problems = read_output(each, ignore)
        found.extend(OutputProblem(index, problem) for problem in problems)
        if output is not None:
            outputs.append((index, output))
    found.extend(_repeated(outputs))
    found.extend(_too_many_segments(outputs))
    found.sort(key=lambda problem: problem.index or 0)
    return tuple(output for _, output in outputs), tuple(found)


def _too_many_segments(outputs: Sequence[tuple[int, Output]]) -> Iterator[OutputProblem]:
    """How many seconds the source has is known only later; then the number of all segments is bounded."""
    hls = [(index, output) for index, output in outputs if isinstance(output, HlsOutput)]
    per_second = sum(len(output.variants) / output.segment_seconds for _, output in hls)
    if per_second > MAX_SEGMENTS_PER_SECOND:
        message = (
            f"the HLS outputs together make {per_second:.3g} segments for each second of the source; at most "
            f"{MAX_SEGMENTS_PER_SECOND} are allowed: raise segment_seconds or ask for fewer variants"
        )
        yield OutputProblem(hls[-1][0], FieldProblem("/segment_seconds", "too_many_segments", message))


def read_output(raw: object, ignore: Collection[str] = ()) -> tuple[Output | None, tuple[FieldProblem, ...]]:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        pointer = "/kind" if isinstance(raw, dict) else ""
        return None, (FieldProblem(pointer, "unknown_kind", f"the kind is one of: {', '.join(KINDS)}"),)
    problems: list[FieldProblem] = []
    output = read(raw, KINDS[kind], problems, ignore=ignore)
    if output is not None:
        problems.extend(problems_of(output))
    by_pointer: dict[str, FieldProblem] = {}
    for problem in problems:
        by_pointer.setdefault(
            problem.pointer, problem
        )  # a value that could not be read breaks further rules at its place
    return output, tuple(by_pointer.values())


def problems_of(output: Output) -> Iterator[FieldProblem]:
    match output:
        case AudioOutput():
            yield from _audio_problems(output)
        case VideoOutput():
            yield from _video_problems(output)
        case HlsOutput():
            yield from _hls_problems(output)
        case WaveformOutput():
            yield from _name_problems(output.filename, (output.format,))
        case ThumbnailOutput():
            yield from _name_problems(output.filename, ("jpg", "jpeg") if output.format == "jpg" else ("png",))
    if not isinstance(output, ThumbnailOutput):
        yield from _trim_problems(output.trim)


def names_of(output: Output) -> tuple[str, ...]:
    """The names of its files under the destination; for HLS the folder."""
    if isinstance(output, HlsOutput):
        return (output.id,)
    name = output.filename or f"{output.id}.{_extension(output)}"
    if isinstance(output, ThumbnailOutput) and len(output.at_ms) > 1:
        stem, _, extension = name.rpartition(".")
        return tuple(f"{stem}-{number}.{extension}" for number in range(1, len(output.at_ms) + 1))
    return (name,)


def _extension(output: AudioOutput | VideoOutput | WaveformOutput | ThumbnailOutput) -> str:
    match output:
        case AudioOutput():
            return AUDIO_PRESETS[output.preset].codec.extensions[0] if output.preset in AUDIO_PRESETS else "bin"
        case VideoOutput():
            return "mp4"
        case WaveformOutput() | ThumbnailOutput():
            return output.format


def _repeated(outputs: Sequence[tuple[int, Output]]) -> Iterator[OutputProblem]:
    ids: set[str] = set()
    names: set[str] = set()
    for index, output in outputs:
        if output.id.casefold() in ids:
            yield OutputProblem(index, FieldProblem("/id", "not_unique", "two outputs have this id"))
        ids.add(output.id.casefold())
        mine = {_folded(name) for name in names_of(output)}
        if mine & names:
            yield OutputProblem(index, FieldProblem("/filename", "not_unique", "two outputs would write this file"))
        names |= mine


def _folded(name: str) -> str:
    """File systems differ in what they take for the same name; this is the strictest of them."""
    return unicodedata.normalize("NFKC", name).casefold()


def _name_problems(name: str | None, extensions: Sequence[str] | None) -> Iterator[FieldProblem]:
    if name is None:
        return
    if not name or name.startswith(".") or ".." in name or any(letter in "/\\" for letter in name):
        yield FieldProblem(
            "/filename", "invalid_filename", "a plain file name is expected: no slashes, no leading or double dot"
        )
    elif any(unicodedata.category(letter).startswith("C") for letter in name):
        yield FieldProblem("/filename", "invalid_filename", "a file name has no control characters")
    elif len(name.encode()) > MAX_NAME_BYTES:
        yield FieldProblem("/filename", "invalid_filename", f"a file name has at most {MAX_NAME_BYTES} bytes")
    elif extensions is not None and (name.rpartition(".")[2].lower() not in extensions or not name.rpartition(".")[0]):
        yield FieldProblem("/filename", "wrong_extension", f"the name must end in .{' or .'.join(extensions)}")


def _trim_problems(trim: Trim) -> Iterator[FieldProblem]:
    if trim.end_ms is None:
        return
    if trim.end_ms <= trim.start_ms:
        yield FieldProblem("/trim/end_ms", "empty_range", "the end must come after the start")
    elif trim.fade_in_ms + trim.fade_out_ms > trim.end_ms - trim.start_ms:
        yield FieldProblem("/trim", "fades_too_long", "the fades are longer than what is left")


def _audio_problems(output: AudioOutput) -> Iterator[FieldProblem]:
    preset = AUDIO_PRESETS.get(output.preset)
    if preset is None:
        yield FieldProblem("/preset", "unknown_preset", f"the preset is one of: {', '.join(AUDIO_PRESETS)}")
        yield from _name_problems(output.filename, None)
    else:
        yield from _name_problems(output.filename, preset.codec.extensions)
        yield from _setting_problems(output.audio, preset)
    yield from _tag_problems(output.tags)


def _video_problems(output: VideoOutput) -> Iterator[FieldProblem]:
    preset = VIDEO_PRESETS.get(output.preset)
    if preset is None:
        yield FieldProblem("/preset", "unknown_preset", f"the preset is one of: {', '.join(VIDEO_PRESETS)}")
        yield from _name_problems(output.filename, None)
    else:
        yield from _name_problems(output.filename, preset.extensions)
        yield from _setting_problems(output.audio, preset.audio)
    yield from _tag_problems(output.tags)


def _hls_problems(output: HlsOutput) -> Iterator[FieldProblem]:
    seen: set[str] = set()
    for index, variant in enumerate(output.variants):
        pointer = f"/variants/{index}/preset"
        audio = AUDIO_PRESETS.get(variant.preset)
        if variant.preset not in VIDEO_PRESETS and (audio is None or audio.codec.name not in HLS_CODECS):
            fitting = [name for name, preset in AUDIO_PRESETS.items() if preset.codec.name in HLS_CODECS]
            yield FieldProblem(
                pointer, "unknown_preset", f"a variant is one of: {', '.join([*fitting, *VIDEO_PRESETS])}"
            )
        if variant.preset in seen:
            yield FieldProblem(pointer, "not_unique", "two variants have this preset")
        seen.add(variant.preset)


def _setting_problems(settings: AudioSettings, preset: AudioPreset) -> Iterator[FieldProblem]:
    codec = preset.codec
    if settings.bitrate_kbps is not None:
        if codec.bitrates_kbps is None:
            yield FieldProblem("/audio/bitrate_kbps", "not_adjustable", f"{codec.name} has no bit rate to choose")
        elif not codec.bitrates_kbps[0] <= settings.bitrate_kbps <= codec.bitrates_kbps[1]:
            low, high = codec.bitrates_kbps
            yield FieldProblem("/audio/bitrate_kbps", "out_of_range", f"{codec.name} takes {low} to {high} kbit/s")
    if settings.sample_rate is not None and settings.sample_rate not in codec.sample_rates:
        rates = ", ".join(str(rate) for rate in codec.sample_rates)
        yield FieldProblem("/audio/sample_rate", "out_of_range", f"{codec.name} takes: {rates}")
    if settings.channels is not None and settings.channels > codec.max_channels:
        yield FieldProblem(
            "/audio/channels", "out_of_range", f"{codec.name} takes at most {codec.max_channels} channels"
        )


def _tag_problems(tags: Tags) -> Iterator[FieldProblem]:
    if len(tags.set) > MAX_TAGS:
        yield FieldProblem("/tags/set", "too_many", f"at most {MAX_TAGS} tags can be set")
    for key, value in tags.set.items():
        pointer = f"/tags/set/{escaped(key)}"
        if not 1 <= len(key) <= 64 or not key.isascii() or not key.isprintable() or "=" in key:
            yield FieldProblem(pointer, "invalid_tag", "a tag's name has 1 to 64 printable ASCII characters without =")
        if len(value) > MAX_TAG_CHARACTERS or "\0" in value:
            yield FieldProblem(
                pointer, "invalid_tag", f"a tag's value has at most {MAX_TAG_CHARACTERS} characters, none of them NUL"
            )
