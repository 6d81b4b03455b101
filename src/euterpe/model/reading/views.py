"""What is asked about jobs, and what is answered: searches, pages, counts, changes."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.job import JobRow
from euterpe.model.state import State

PAGE_BYTES: Final = 8_000_000
"""Payloads, results and checkpoints of one page: past this it is cut short, and its cursor goes on from there."""


SCAN_LIMIT: Final = 20_000
"""Jobs of a state that one page looks at. The next page goes on from there."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for; `cursor` continues after the last page."""

    requester_id: str | None = None
    state: State | None = None
    type: str | None = None
    queue: str | None = None
    type_prefix: str | None = None
    tag: tuple[str, str] | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """As `tag`; a job has all of them."""
    error: str | None = None
    """The code or the category of its last error."""
    fingerprint: str | None = None
    """Of its failure: what all failures with one cause have in common."""
    created_after: int | None = None
    created_before: int | None = None
    ended_after: int | None = None
    ended_before: int | None = None
    """Only jobs that have ended match either."""
    replayed: bool | None = None
    """Whether another job runs it again."""
    text: str | None = None
    """An id, or at least its first eight characters; else a correlation id."""
    cursor: str | None = None
    limit: int = 50
    max_bytes: int = PAGE_BYTES
    scan_limit: int | None = None
    """Jobs of a state to look at for one page. None: as many as there are."""

    @property
    def every_tag(self) -> tuple[tuple[str, str], ...]:
        return self.tags if self.tag is None else (self.tag, *self.tags)


class SearchPage(msgspec.Struct, frozen=True):
    """Jobs, newest first; `cursor` is None on the last page. A page of large jobs is shorter than its limit, and so is
    one that looked at as many jobs as it may: it can be empty, and its cursor still goes on."""

    jobs: list[JobRow]
    cursor: str | None


class QueueDepth(msgspec.Struct, frozen=True):
    """The live jobs of one queue in one state and the age of the oldest."""

    queue: str
    state: State
    count: int
    oldest_age_us: int


class StoreStats(msgspec.Struct, frozen=True):
    """Counts by state, queue and type; oldest waiting ages by queue; ends per minute. The states in `estimated` have so
    many jobs that their counts come from a sample."""

    by_state: dict[str, int]
    by_queue: dict[str, dict[str, int]]
    by_type: dict[str, dict[str, int]]
    oldest_age_us: dict[str, int]
    per_minute: dict[str, int]
    outbox: dict[str, int]
    estimated: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True):
    """Where a job is, in the order of `change_columns.sql`. `sequence` grows with every change of its state."""

    job_id: str
    requester_id: str
    type: str
    queue: str
    state: State
    stage: str | None
    attempt: int
    sequence: int
    updated_at: int


class Usage(msgspec.Struct):
    """What a requester has."""

    jobs: int = 0
    payload_bytes: int = 0
    keys: int = 0
