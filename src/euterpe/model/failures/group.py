"""Failures of one cause, together."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.reading.document import rfc3339

GROUPS_LOOKED_AT: Final = 1_000
"""Fingerprints that one question looks at. More than that means that messages hold something that is not replaced."""
GROUPS_LIMIT: Final = 200
COUNTED_OF_A_GROUP: Final = 10_000
COUNTED_TOGETHER: Final = 30_000
"""Failures that one question counts, in all groups: the more groups, the earlier a large one is "more than"."""
COUNTED_AT_LEAST: Final = 1_000
CAUSE_LIMIT: Final = 500


def counted_of_each(groups: int) -> int:
    """Where the count of each of so many groups stops."""
    return min(COUNTED_OF_A_GROUP, max(COUNTED_AT_LEAST, COUNTED_TOGETHER // max(1, groups)))


def cause_text(job_type: str, code: str, message: str) -> str:
    """What failures of one cause have in common, in a line."""
    return f"{job_type}: {code}: {message}"[:CAUSE_LIMIT]


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failed and dead-lettered jobs with one fingerprint; the sample is the newest of them."""

    fingerprint: str
    type: str
    code: str
    category: str
    message: str
    count: int
    exact: bool
    """Whether there are no more than `count`."""
    first_at: int
    last_at: int
    sample_job_id: str


class FailureGroups(msgspec.Struct, frozen=True):
    """Groups, the one that failed last first; `more`: not all of them are here."""

    groups: list[FailureGroup]
    more: bool


def group_document(group: FailureGroup) -> dict[str, object]:
    """A group as the API and the command line show it."""
    return {
        "fingerprint": group.fingerprint,
        "query": f"fingerprint:{group.fingerprint}",
        "type": group.type,
        "code": group.code,
        "category": group.category,
        "message": group.message,
        "count": group.count,
        "exact": group.exact,
        "first_at": rfc3339(group.first_at),
        "last_at": rfc3339(group.last_at),
        "sample_job_id": group.sample_job_id,
    }
