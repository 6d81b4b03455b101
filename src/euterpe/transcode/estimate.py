"""How long a transcode will take, from how long the last ones took that asked for the same.

A source's length is not known when its request comes, so the answer to it is the usual time. Once the source was
probed, the estimate follows its length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Final

from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one
from euterpe.transcode.schema.outputs import AudioOutput, HlsOutput, Output, VideoOutput, kind_of

FEWEST_RUNS: Final = 20
"""Fewer say too little to promise anything."""
RUNS_KEPT: Final = 50

Run = tuple[int, int]
"""The length of the source and the length of the run, both in milliseconds."""


class RunHistory:
    """The runs of one installation, by the work that they did."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def record(self, job_id: str, outputs: Sequence[Output], media_ms: int, run_ms: int) -> None:
        work = work_of(outputs)
        await self._engine.write(lambda: record_run(work, job_id, media_ms, run_ms))

    async def expected_ms(self, outputs: Sequence[Output], media_ms: int | None = None) -> int | None:
        """None until there were enough runs. Without the length of the source: the usual time."""
        work = work_of(outputs)
        return estimate_ms(await self._engine.read(lambda: recent_runs(work)), media_ms)


def work_of(outputs: Sequence[Output]) -> str:
    """What takes the time: kinds and presets. Names, tags and the order of outputs do not."""
    return hashlib.sha256("\n".join(sorted(map(_work, outputs))).encode()).hexdigest()


def _work(output: Output) -> str:
    parts = [kind_of(output)]
    if isinstance(output, HlsOutput):
        parts += sorted(variant.preset for variant in output.variants)
    elif isinstance(output, AudioOutput | VideoOutput):
        parts.append(output.preset)
    if isinstance(output, AudioOutput | VideoOutput | HlsOutput) and output.loudness is not None:
        parts.append("loudness")
    return " ".join(parts)


def estimate_ms(runs: Sequence[Run], media_ms: int | None) -> int | None:
    """A line through the runs that one odd run in three cannot bend: the median of all slopes between two of them."""
    if len(runs) < FEWEST_RUNS:
        return None
    usual = median(run for _, run in runs)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(runs, 2) if a[0] != b[0]]
    if media_ms is None or not slopes:
        return round(usual)
    slope = max(0.0, median(slopes))
    start = max(0.0, median(run - slope * media for media, run in runs))
    return round(start + slope * media_ms)


def record_run(work: str, job_id: str, media_ms: int, run_ms: int) -> Program[None]:
    yield one("transcode/insert_run", work=work, job_id=job_id, media_ms=media_ms, run_ms=run_ms)
    yield one("transcode/forget_runs", work=work, limit=RUNS_KEPT)


def recent_runs(work: str) -> Program[list[Run]]:
    rows = yield one("transcode/recent_runs", work=work, limit=RUNS_KEPT)
    return [(row[0], row[1]) for row in rows]
