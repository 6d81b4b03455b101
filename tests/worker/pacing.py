"""A worker's pace as a test wants it."""

from __future__ import annotations

from euterpe.worker.claiming.prefetch import Pace


class Eager(Pace):
    """Claims so many ahead from the first turn on, of the one type."""

    def __init__(self, count: int, job_type: str) -> None:
        super().__init__()
        self.count = count
        self.job_type = job_type

    def ahead(self) -> int:
        return self.count

    @property
    def short_types(self) -> tuple[str, ...]:
        return (self.job_type,)
