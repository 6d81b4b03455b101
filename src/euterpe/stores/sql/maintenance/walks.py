"""Walks over tables in bounded steps (Postgres): what no index finds is looked for page by page, in every process.

They are a safety net. The statement that changes a job's state puts the job into the line or takes it out; what a walk
finds, a statement has forgotten. Lifetimes of jobs in the line are the exception: an index for them costs every submit.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from euterpe.model.claims.outcome import taken_away
from euterpe.model.failures.failure import LIFETIME_OVER
from euterpe.model.state import By, State
from euterpe.stores.sql.jobs import settle as jobs_settle
from euterpe.stores.sql.jobs.keys import admit, repair_keys
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.rows import jobs_from
from euterpe.stores.sql.statements import Family

log = logging.getLogger("euterpe.sweep")

FORGOTTEN_US: Final = 300_000_000
"""A job whose lease ended so long ago is in no claim that a sweep reads."""
LineAt = tuple[str, str, int, int, int]
"""Queue, type, priority, rank and number of a run."""
KeyLineAt = tuple[str, str, str, int, int]
"""Key, queue, type, priority and number of a job."""
LINE_BEGIN: Final[LineAt] = ("", "", -1, 0, 0)
KEY_LINE_BEGIN: Final[KeyLineAt] = ("", "", "", -1, 0)


class WalkPlaces(msgspec.Struct, frozen=True):
    """Where the walks of this process go on."""

    job: int = 0
    run: LineAt = LINE_BEGIN
    keyed: KeyLineAt = KEY_LINE_BEGIN
    key: str = ""


class Adopted(msgspec.Struct, frozen=True):
    job_ids: list[str]
    place: int


def adopt(after: int, limit: int) -> Program[Adopted]:
    """Jobs that are ready and in no line enter it."""
    rows = yield one("adopt", after=after, limit=limit, forgotten_us=FORGOTTEN_US)
    last, looked_at = rows[0][:2]
    found = [row for row in rows if row[4] is not None]
    yield from admit({row[3]: 0 for row in found if row[3] is not None})
    return Adopted([row[4] for row in found], last if looked_at == limit else 0)


def walk_line(after: LineAt, limit: int, family: Family) -> Program[tuple[int, LineAt]]:
    """End jobs in the line whose lifetime is over, and drop runs without a job that is ready."""
    queue, type_, priority, rank, seq = after
    rows = yield one("line_page", queue=queue, type=type_, priority=priority, rank=rank, seq=seq, limit=limit)
    if not rows:
        return 0, LINE_BEGIN
    *place, looked_at, over, dropped, keys = rows[0]
    if dropped:
        log.warning("%d runs of the line had no job that is ready; they were dropped", dropped)
    ended = yield from _end_over(over, family)
    yield from repair_keys(keys, family)
    return ended, _place(place) if looked_at == limit else LINE_BEGIN


def walk_key_lines(after: KeyLineAt, limit: int, family: Family) -> Program[tuple[int, KeyLineAt]]:
    """The same for the own lines of keys."""
    key, queue, type_, priority, seq = after
    rows = yield one("key_line_page", key=key, queue=queue, type=type_, priority=priority, seq=seq, limit=limit)
    if not rows:
        return 0, KEY_LINE_BEGIN
    *place, looked_at, over, dropped = rows[0]
    if dropped:
        log.warning("%d jobs in the lines of keys were not ready; they were dropped", dropped)
    ended = yield from _end_over(over, family)
    return ended, _key_place(place) if looked_at == limit else KEY_LINE_BEGIN


def walk_keys(after: str, limit: int, family: Family) -> Program[tuple[int, str]]:
    """Repair the next keys in the order of names; how many jobs entered the line by it."""
    names = [row[0] for row in (yield one("waiting_keys", after=after, limit=limit))]
    queues = yield from repair_keys(names, family)
    return len(queues), names[-1] if len(names) == limit else ""


def _end_over(seqs: list[int], family: Family) -> Program[int]:
    if not seqs:
        return 0
    jobs = jobs_from((yield one("waiting_over_lifetime", seqs=list(seqs))))
    pairs = [(job, taken_away(job, State.DEAD_LETTER, LIFETIME_OVER, By.SWEEP)) for job in jobs]
    return len((yield from jobs_settle.take_away(pairs, family)))


def _place(row: Row) -> LineAt:
    queue, type_, priority, rank, seq = row
    return queue, type_, priority, rank, seq


def _key_place(row: Row) -> KeyLineAt:
    key, queue, type_, priority, seq = row
    return key, queue, type_, priority, seq
