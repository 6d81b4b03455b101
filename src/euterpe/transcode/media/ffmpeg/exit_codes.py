"""What an exit of ffmpeg means. Its code is the low byte of a negative AVERROR."""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError


@dataclass(frozen=True, slots=True)
class Meaning:
    code: str
    category: Category
    message: str
    retries: int | None = None


INVALID_DATA = "media.invalid_data"
INVALID_ARGUMENT = "encode.invalid_argument"
EXIT_CODES: dict[int, Meaning] = {
    183: Meaning(INVALID_DATA, Category.PERMANENT, "the source is damaged, cut off or no media file"),
    8: Meaning("media.not_supported", Category.PERMANENT, "the source needs a decoder or a stream that is not there"),
    234: Meaning(INVALID_ARGUMENT, Category.PERMANENT, "the source and these output options do not fit together"),
    228: Meaning("encode.disk_full", Category.SYSTEM, "no space is left on the worker's disk"),
    244: Meaning("encode.out_of_memory", Category.SYSTEM, "the worker had not enough memory for this source"),
    251: Meaning("encode.io_error", Category.SYSTEM, "the worker could not read or write its disk"),
    187: Meaning("encode.unknown", Category.TEMPORARY, "the encoder failed without a reason", retries=1),
    229: Meaning("output.too_large", Category.PERMANENT, "the output grew beyond its limit"),
    255: Meaning("encode.not_permitted", Category.SYSTEM, "the encoder was refused an operation or was stopped"),
}
_SAME = {errno.ENOSPC: 228, errno.EDQUOT: 228, errno.ENOMEM: 244}
OTHER = Meaning("encode.failed", Category.TEMPORARY, "the encoder failed", retries=1)
CRASHED = Meaning("encode.crashed", Category.SYSTEM, "the encoder died of a signal")
CPU_SPENT = Meaning("encode.cpu_limit", Category.TIMEOUT, "the encoder used all the processor time it may have")


def error_for_exit(returncode: int) -> MediaError:
    """For a child that ended by itself; one that we killed has its own reason, which the caller knows."""
    if returncode < 0:
        meaning = CPU_SPENT if -returncode == signal.SIGXCPU else CRASHED
        return MediaError(meaning.code, meaning.category, meaning.message, signal=-returncode)
    meaning = EXIT_CODES.get(returncode, OTHER)
    return MediaError(meaning.code, meaning.category, meaning.message, exit_code=returncode, retries=meaning.retries)


def error_for_system(error: OSError) -> MediaError:
    """For our own reading and writing; the same meanings, and not the path that the error names."""
    meaning = EXIT_CODES[_SAME.get(error.errno or 0, 251)]
    return MediaError(meaning.code, meaning.category, meaning.message)


def after_crash(error: MediaError, former_signal: int | None) -> MediaError:
    """The same signal twice on the same source is the source's fault: there is no point in a third try."""
    if error.code != CRASHED.code or error.signal is None or error.signal != former_signal:
        return error
    return MediaError(
        "media.crashes_decoder",
        Category.PERMANENT,
        "the source makes the decoder crash",
        output_id=error.output_id,
        signal=error.signal,
    )
