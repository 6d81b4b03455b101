"""One frame as a picture: of the video at a time, or the cover of a sound file."""

from __future__ import annotations

from euterpe.transcode.media.command import seconds
from euterpe.transcode.media.errors import bad_output
from euterpe.transcode.media.probing.info import MediaInfo, MediaStream
from euterpe.transcode.schema.outputs import ThumbnailOutput

LAST_FRAME_MS = 200
"""So far before the end there is still a frame to be found."""


def pictured_stream(output: ThumbnailOutput, info: MediaInfo) -> MediaStream:
    stream = info.video or next(iter(info.covers), None)
    if stream is None:
        raise bad_output("no_video", "the source has neither video nor a cover", output.id)
    return stream


def seek_times(output: ThumbnailOutput, info: MediaInfo) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """When, and warnings: a time after the end becomes the last frame."""
    if info.video is None:
        return tuple(0 for _ in output.at_ms), ("thumbnail_of_cover",)
    last = max(0, info.duration_ms - LAST_FRAME_MS) if info.duration_ms else max(output.at_ms)
    late = any(at > last for at in output.at_ms)
    return tuple(min(at, last) for at in output.at_ms), ("thumbnail_beyond_end",) if late else ()


def frame_options(output: ThumbnailOutput, stream: MediaStream) -> list[str]:
    width, height = output.width, output.height
    options = ["-map", f"0:{stream.index}", "-frames:v", "1"]
    filters = ["scale=round(iw*sar):ih", "setsar=1"] if stream.pixel_shape != 1.0 else []
    if width or height:
        size = f"{width or -2}:{height or -2}"
        fit = ":force_original_aspect_ratio=decrease" if width and height else ""
        filters.append(f"scale={size}{fit}")
    options += ["-filter:v", ",".join(filters)] if filters else []
    encoder = ["mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p"] if output.format == "jpg" else ["png"]
    return [*options, "-c:v", *encoder, "-map_metadata", "-1", "-f", "image2", "-update", "1"]


def seek_options(at_ms: int, info: MediaInfo) -> list[str]:
    """Before the input: it then jumps to the keyframe before and decodes only from there."""
    return ["-ss", seconds(at_ms)] if info.video is not None and at_ms else []
