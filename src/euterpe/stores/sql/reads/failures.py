"""Failures by cause: one step in an index for each fingerprint, and a count that stops where nobody counts on."""

from __future__ import annotations

from euterpe.model.errors import InvalidInput
from euterpe.model.failures.group import (
    COUNTED_OF_A_GROUP,
    GROUPS_LIMIT,
    GROUPS_LOOKED_AT,
    FailureGroup,
    FailureGroups,
    cause_text,
    counted_of_each,
)
from euterpe.model.job import read_error
from euterpe.stores.sql.program import Program, one


def failure_groups(requester_id: str | None, limit: int) -> Program[FailureGroups]:
    """The groups whose newest jobs are newest, the one that failed last first."""
    if not 1 <= limit <= GROUPS_LIMIT:
        raise InvalidInput("limit", f"{limit} is not between 1 and {GROUPS_LIMIT}")
    # Of everybody's jobs the first is the newest; one's own may stand behind those of others.
    counted = 1 if requester_id is None else COUNTED_OF_A_GROUP
    rows = yield one("failing", requester_id=requester_id, groups=GROUPS_LOOKED_AT, counted=counted)
    own = sorted(((row[1], row[0]) for row in rows if row[1] is not None), reverse=True)
    groups = []
    at_most = counted_of_each(min(len(own), limit))
    for newest, fingerprint in own[:limit]:
        group = yield from _group(fingerprint, newest, requester_id, at_most)
        if group is not None:
            groups.append(group)
    groups.sort(key=lambda group: group.last_at, reverse=True)
    return FailureGroups(groups, more=len(own) > limit or len(rows) >= GROUPS_LOOKED_AT)


def _group(fingerprint: str, newest: int, requester_id: str | None, at_most: int) -> Program[FailureGroup | None]:
    ((count, first_at, last_at),) = yield one(
        "failure_group", fingerprint=fingerprint, requester_id=requester_id, counted=at_most + 1
    )
    samples = yield one("failure_sample", fingerprint=fingerprint, seq=newest)
    if not samples or not count:
        return None  # Retried or pruned since the groups were listed.
    if count > at_most:
        oldest = yield one("first_failure", fingerprint=fingerprint, requester_id=requester_id)
        first_at = min(first_at, oldest[0][0]) if oldest else first_at
    job_id, job_type, stored = samples[0]
    error = read_error(stored or "{}")
    return FailureGroup(
        fingerprint=fingerprint,
        type=job_type,
        code=str(error.get("code", "error")),
        category=str(error.get("category", "")),
        message=str(error.get("message", "")),
        count=min(count, at_most),
        exact=count <= at_most,
        first_at=first_at,
        last_at=last_at,
        sample_job_id=job_id,
    )


def cause_of(fingerprint: str, requester_id: str | None) -> Program[str | None]:
    """In words; None where no failure has this fingerprint any more."""
    rows = yield one("failure_cause", fingerprint=fingerprint, requester_id=requester_id)
    if not rows:
        return None
    job_type, stored = rows[0]
    error = read_error(stored or "{}")
    return cause_text(job_type, str(error.get("code", "error")), str(error.get("message", "")))
