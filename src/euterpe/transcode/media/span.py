"""Which part of the source an output covers, in the source's own time."""

from __future__ import annotations

from dataclasses import dataclass

from euterpe.transcode.media.errors import bad_output
from euterpe.transcode.media.probing.info import MediaInfo
from euterpe.transcode.schema.outputs import Trim

UNKNOWN_SHARE = 0.6
"""Of the container's length, where its streams do not say their own."""


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
    """An output that is shorter than this is cut off. None: than `length_ms`."""
    fade_in_ms: int = 0
    fade_out_ms: int = 0
    sound_late_ms: int = 0
    """How long after the start of the span the sound begins: so much silence goes before it."""
    picture_late_ms: int = 0

    @property
    def whole(self) -> bool:
        return self.start_ms == 0 and self.end_ms is None


def span_of(
    trim: Trim, info: MediaInfo, *, picture: bool, output_id: str, ladder: bool = False
) -> tuple[TimeSpan, tuple[str, ...]]:
    """`picture` says that the output shows the video; of a `ladder` some variants have only the sound."""
    total, exact = _length(info, picture=picture)
    warnings: list[str] = []
    end = trim.end_ms
    if total is not None and exact:
        if trim.start_ms >= total:
            raise bad_output("trim_outside", "the trim starts after the end of the source", output_id)
        if end is not None and end > total:
            warnings.append("trim_beyond_end")
        end = None if end is None or end >= total else end
    sound, video = info.audio, info.video if picture else None
    if video is None and sound is not None and end is not None and end <= sound.late_ms:
        raise bad_output("trim_outside", "the trim ends before the sound of the source begins", output_id)
    last = end if end is not None else total
    length = None if last is None else max(0, last - trim.start_ms)
    if trim.fade_out_ms and not (end is not None or exact):
        warnings.append("fade_out_at_estimated_end")
    least = _least(info, picture=picture, ladder=ladder)
    return (
        TimeSpan(
            start_ms=trim.start_ms,
            end_ms=end,
            length_ms=length,
            exact=exact,
            least_ms=None if length is None or least is None else max(0, min(length, least - trim.start_ms)),
            fade_in_ms=trim.fade_in_ms,
            fade_out_ms=trim.fade_out_ms,
            sound_late_ms=max(0, sound.late_ms - trim.start_ms) if sound is not None else 0,
            picture_late_ms=max(0, video.late_ms - trim.start_ms) if video is not None else 0,
        ),
        tuple(warnings),
    )


def _length(info: MediaInfo, *, picture: bool) -> tuple[int | None, bool]:
    """To the end of the last stream that is shown; the container's own where its streams do not say theirs."""
    exact = info.duration_ms is not None and not info.duration_estimated
    ends = _ends(info, picture=picture)
    return (max(ends) if ends and info.video is not None else info.duration_ms), exact


def _least(info: MediaInfo, *, picture: bool, ladder: bool) -> int | None:
    """How much there must be at least. None: all of it. Sound and picture need not end together."""
    if info.video is None or info.audio is None:
        return None
    ends = _ends(info, picture=picture)
    if not ends:
        return round((info.duration_ms or 0) * UNKNOWN_SHARE)
    return min(ends) if ladder else None


def _ends(info: MediaInfo, *, picture: bool) -> list[int]:
    """When each stream that is shown ends; empty if one of them does not say."""
    shown = [stream for stream in (info.audio, info.video if picture else None) if stream is not None]
    ends = [stream.late_ms + stream.duration_ms for stream in shown if stream.duration_ms is not None]
    return ends if len(ends) == len(shown) else []
