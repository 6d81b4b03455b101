"""Unique keys: a submission finds the job that has its key, and keeps it, changes it, or takes its place.

The key's row is held first, so two submissions of one key take turns. A job that waits is held too before it is kept or
changed: it cannot start before the submission is committed, and so it sees what was written with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from euterpe.model.job import JobRow
from euterpe.model.state import LIVE, WAITING
from euterpe.model.submitting.batch import Draft, SubmitResult, Unit
from euterpe.model.submitting.submission import idempotency_scope
from euterpe.model.submitting.unique import Unique
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import jobs_from

UniqueKey = tuple[str, str]


def unique_keys(unit: Unit) -> list[tuple[UniqueKey, Draft]]:
    return [
        ((idempotency_scope(s.requester_id, s.type), s.unique_key), draft)
        for draft in unit.drafts
        if (s := draft.submission).unique_key is not None
    ]


def find_unique(units: Mapping[int, Unit], replays: dict[int, dict[str, SubmitResult]]) -> Program[None]:
    """Note what is answered by a job that is there already; everything else is new, and has its key now."""
    wanted = sorted(
        ((key, i, draft) for i, unit in units.items() for key, draft in unique_keys(unit)),
        key=lambda found: found[0],
    )
    for (scope, key), i, draft in wanted:
        ((job_id,),) = yield one("hold_unique", scope=scope, key=key, job_id=draft.id)
        if job_id == draft.id:
            continue
        kept = yield from _kept(job_id, draft)
        if kept is None:
            yield one("take_unique", scope=scope, key=key, job_id=draft.id)
        else:
            replays.setdefault(i, {})[draft.id] = kept


def _kept(job_id: str, draft: Draft) -> Program[SubmitResult | None]:
    """The answer of the job that stays; None where it does not keep the new one away."""
    s = draft.submission
    job = yield from _look("get_jobs", job_id)
    if job is not None and job.state in WAITING:
        job = yield from _look("get_jobs_for_update", job_id)
    if job is None or not s.unique.is_taken_by(job.state):
        return None
    if s.unique.replaces:
        yield one(
            "replace_waiting",
            id=job.id,
            claim_version=job.claim_version,
            payload=s.payload,
            payload_format=s.payload_format,
            delay_us=s.delay_us if s.unique is Unique.DEBOUNCE else None,
        )
    return SubmitResult.of(job, replayed=True)


def _look(statement: str, job_id: str) -> Program[JobRow | None]:
    rows = yield one(statement, ids=[job_id])
    return jobs_from(rows)[0] if rows else None


def kept_for(draft: Draft) -> Program[SubmitResult | None]:
    """After a lost answer: the job that was kept instead of this draft. None: its key is free again."""
    s = draft.submission
    rows = yield one("unique_job", scope=idempotency_scope(s.requester_id, s.type), key=s.unique_key)
    job = (yield from _look("get_jobs", rows[0][0])) if rows else None
    return None if job is None else SubmitResult.of(job, replayed=True)


def regain_unique(job: JobRow) -> Program[bool]:
    """The ended job, which is held, has its unique key again. False: a job that has not ended has it."""
    ((key,),) = yield one("unique_key_of", id=job.id)
    scope = idempotency_scope(job.requester_id, job.type)
    ((holder_id,),) = yield one("hold_unique", scope=scope, key=key, job_id=job.id)
    if holder_id != job.id:
        holder = yield from _look("get_jobs", holder_id)
        if holder is not None and holder.state in LIVE:
            return False
        yield one("take_unique", scope=scope, key=key, job_id=job.id)
    return True


def forget_unique(limit: int) -> Program[int]:
    """Keys of jobs that have ended; returns how many."""
    ended = yield one("ended_unique", limit=limit)
    if not ended:
        return 0
    rows = yield each("forget_unique", scope=[row[0] for row in ended], key=[row[1] for row in ended])
    return len(rows)
