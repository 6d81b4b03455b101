"""The shapes of jobs that one worker drains: how they are submitted, and what happens to them before they are done.

An adapter finds the shape's name in its setting `shape`. `bulk` is the drain that every peer is measured by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.harness.catalogue import Subject

ONE_BY_ONE_JOBS = 20_000
"""Seconds of submits for each subject; the drain takes less than one."""
MANY_JOBS = 40_000


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    title: str
    jobs: int = MANY_JOBS
    """The same number for every subject."""
    one_by_one: bool = False
    due_after_s: float = 0.0
    """Each job may start so long after its submit; the workers start when all of them may."""
    starts: int = 1
    """How often a handler starts for one job."""

    @property
    def metric(self) -> str:
        return "drain_x1" if self is BULK else f"drain_{self.name}"

    def of(self, subject: Subject) -> Subject:
        settings = {**subject.settings, "shape": self.name, "due_after_s": self.due_after_s}
        return replace(subject, settings=settings)

    def fits(self, subject: Subject) -> bool:
        return subject.lacks is not None and self.name not in subject.lacks


BULK = Shape("bulk", "plain jobs of a bulk submit")
SHAPES = (
    Shape("lone", "submitted one by one", ONE_BY_ONE_JOBS, one_by_one=True),
    Shape("web", "one by one, with idempotency key, tags and correlation id", ONE_BY_ONE_JOBS, one_by_one=True),
    Shape("tagged", "bulk, other tags each"),
    Shape("mixed", "bulk, three priorities"),
    Shape("delayed", "bulk, delayed, then due", due_after_s=2.0),
    Shape("retried", "bulk, each fails once", starts=2),
)
