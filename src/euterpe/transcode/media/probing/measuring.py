"""How loud the outputs will be, and how loud one became.

One process a measurement: filters of one process write their summaries into each other's. Outputs that take the same
part in the same channels share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from euterpe.transcode.media.command import chosen_channels, chosen_rate, cutting_filters, mixing_filters
from euterpe.transcode.media.errors import bad_output
from euterpe.transcode.media.ffmpeg.progress import PassMeter
from euterpe.transcode.media.ffmpeg.run import Run
from euterpe.transcode.media.kinds.loudness import MEASURE, MOST_BOOST_DB, Measured, read_measured
from euterpe.transcode.media.prepared import Prepared
from euterpe.transcode.media.probing.info import MediaStream
from euterpe.transcode.schema.outputs import AudioOutput, Output
from euterpe.transcode.schema.presets import AUDIO_PRESETS


async def measure(run: Run, outputs: Sequence[Prepared], meter: PassMeter) -> None:
    """The first pass of loudness; where a limiter will be needed, also what it takes away."""
    audio = run.info.audio
    assert audio is not None
    known: dict[tuple[str, ...], Measured] = {}
    for each in outputs:
        filters = (*cutting_filters(each.span), *mixing_filters(_mixed_to(each.output, audio)))
        if filters not in known:
            known[filters] = await listen(run, filters, audio, each.output.id, meter=meter)
        each.measured = known[filters]
        if each.measured.silent:
            each.warnings.append("loudness_skipped_silence")
        correction = each.correction
        if correction is not None and correction.mode == "dynamic":
            limited = (*filters, *correction.filters(_rate(each.output, audio)))
            after = await listen(run, limited, audio, each.output.id)
            each.boost = min(MOST_BOOST_DB, max(0.0, correction.target.target_lufs - after.lufs))


async def listen(
    run: Run,
    filters: Sequence[str],
    stream: MediaStream,
    output_id: str,
    *,
    source: Path | None = None,
    meter: PassMeter | None = None,
) -> Measured:
    arguments = ["-map", f"0:{stream.index}", "-filter:a", ",".join((*filters, MEASURE)), "-f", "null", "-"]
    done = await run.ffmpeg(arguments, source=source, meter=meter, verbose=True, file_bytes=0)
    measured = read_measured(done.stderr)
    if measured is None:
        raise bad_output("not_measured", "the loudness could not be measured", output_id)
    return measured


def _rate(output: Output, source: MediaStream) -> int:
    if isinstance(output, AudioOutput):
        return chosen_rate(AUDIO_PRESETS[output.preset], output.audio, source)
    return min(48000, source.sample_rate or 48000)


def _mixed_to(output: Output, source: MediaStream) -> int | None:
    """How many channels will be heard, where that differs from the source."""
    if not isinstance(output, AudioOutput):
        return 2 if (source.channels or 2) > 2 else None
    channels = chosen_channels(AUDIO_PRESETS[output.preset], output.audio, source)
    return channels if channels != source.channels else None
