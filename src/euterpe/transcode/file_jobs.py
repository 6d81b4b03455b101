"""Files below the local root as transcoding jobs: what the producer submits when presets are configured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from euterpe.model.errors import InvalidInput
from euterpe.model.state import TRANSCODE_STAGES
from euterpe.model.submitting.submission import Submission
from euterpe.transcode.local_run import BatchProblem, outputs_for
from euterpe.transcode.schema.locations import LocalDestination, LocalSource
from euterpe.transcode.schema.outputs import Output
from euterpe.transcode.schema.request import DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT_S, JOB_TYPE, TranscodePayload


class FileTranscodes:
    """`music/a.flac` becomes `<prefix>a.mp3`: the folders below the scanned one are kept below the prefix."""

    def __init__(self, scanned: str, prefix: str, presets: Sequence[str], queue: str) -> None:
        """`scanned`: the scanned folder below the local root, empty for the root itself. Raises InvalidInput for an
        unknown preset."""
        self._scanned = scanned
        self._prefix = prefix
        self._presets = tuple(presets)
        self._queue = queue
        self._outputs(Path("any.wav"))

    def submission(self, path: str, priority: int, *, keeps_extension: bool) -> Submission:
        """`keeps_extension`: `a.flac` becomes `a.flac.mp3`, because `a.wav` beside it becomes `a.wav.mp3`. Raises
        InvalidInput where the outputs cannot have such a name."""
        place = PurePosixPath(path)
        folder = "" if place.parent == PurePosixPath(".") else f"{place.parent}/"
        payload = TranscodePayload(
            source=LocalSource(path=f"{self._scanned}/{path}" if self._scanned else path),
            destination=LocalDestination(prefix=f"{self._prefix}{folder}"),
            outputs=self._outputs(Path(f"{place.name}.any" if keeps_extension else place.name)),
        )
        return Submission(
            type=JOB_TYPE,
            payload=payload.encode(),
            queue=self._queue,
            priority=priority,
            max_attempts=DEFAULT_MAX_ATTEMPTS,
            execution_timeout_us=DEFAULT_TIMEOUT_S * 1_000_000,
            stages=TRANSCODE_STAGES,
        )

    def _outputs(self, path: Path) -> tuple[Output, ...]:
        try:
            return outputs_for(path, self._presets)
        except BatchProblem as problem:
            raise InvalidInput("producer.presets", str(problem)) from None
