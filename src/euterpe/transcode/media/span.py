"""Which part of the source an output covers, in the source's own time."""

from __future__ import annotations

from dataclasses import dataclass

from euterpe.transcode.media.errors import bad_output
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.schema.outputs import Trim

UNKNOWN_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    start_ms: int
    end_ms: int | None
    """None: to the end, whenever that comes."""
    length_ms: int | None
    """None where the source does not say how long it lasts."""
    exact: bool
    """Whether an output that is too short is broken, or the source just did not know better."""
    least_ms: int | None = None
    """What may be missing to `length_ms` without harm: sound and picture need not end together. None: nothing."""
    fade_in_ms: int = 0
    fade_out_ms: int = 0

    @property
    def whole(self) -> bool:
        return self.start_ms == 0 and self.end_ms is None


def span_of(trim: Trim, info: MediaInfo, *, picture: bool, output_id: str) -> tuple[TimeSpan, tuple[str, ...]]:
    """`picture` says that the output shows the video, so that the container's length counts and not the sound's."""
    total, exact = _length(info, picture=picture)
    warnings: list[str] = []
    end = trim.end_ms
    if total is not None and exact:
        if trim.start_ms >= total:
            raise bad_output("trim_outside", "the trim starts after the end of the source", output_id)
        if end is not None and end > total:
            warnings.append("trim_beyond_end")
        end = None if end is None or end >= total else end
    last = end if end is not None else total
    length = None if last is None else max(0, last - trim.start_ms)
    if trim.fade_out_ms and not (end is not None or exact):
        warnings.append("fade_out_at_estimated_end")
    return (
        TimeSpan(
            start_ms=trim.start_ms,
            end_ms=end,
            length_ms=length,
            exact=exact,
            least_ms=None if length is None else max(0, min(length, _shortest(info, picture=picture) - trim.start_ms)),
            fade_in_ms=trim.fade_in_ms,
            fade_out_ms=trim.fade_out_ms,
        ),
        tuple(warnings),
    )


def _length(info: MediaInfo, *, picture: bool) -> tuple[int | None, bool]:
    exact = info.duration_ms is not None and not info.duration_estimated
    if picture or info.video is None:
        return info.duration_ms, exact
    sound = info.audio.duration_ms if info.audio is not None else None
    return sound or info.duration_ms, exact


def _shortest(info: MediaInfo, *, picture: bool) -> int:
    """Of the streams that the output shows; where they do not say their length, a good part of the container's."""
    whole = info.duration_ms or 0
    if info.video is None or info.audio is None:
        return whole
    shown = (info.audio, info.video) if picture else (info.audio,)
    lengths = [stream.duration_ms for stream in shown if stream.duration_ms is not None]
    return min(lengths) if len(lengths) == len(shown) else round(whole * UNKNOWN_SHARE)
