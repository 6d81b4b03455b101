"""Jobs that would wait again although a newer job of their unique key was submitted while they ran.

A key's row names the job that was last submitted with it, and stays while that job lives. So a living job that is not
named there has been superseded, also if the newer one has ended since. It ends instead of waiting again: two jobs of a
key would wait, and the older arguments would run after the newer ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from euterpe.model.failures.failure import Category, Failure
from euterpe.model.state import State
from euterpe.model.submitting.submission import idempotency_scope
from euterpe.stores.sql.program import Program, Row, each, one

SUPERSEDED: Final = Failure(
    Category.CANCELLED,
    "not retried: a newer job with its unique key was submitted while it ran",
    code="superseded",
)
PAUSES_MS: Final = (2, 10, 50, 100, 300, 1000)
"""How long a settle waits in all for keys that submits hold (Postgres). Commits on a busy disk may take 100 ms."""
_WAITS_AGAIN: Final = (State.RETRYING, State.SCHEDULED)
_ID, _STATE, _CLAIM_VERSION, _TYPE, _REQUESTER, _KEY = 0, 1, 6, 8, 9, 10


def _is_superseded(job_id: str, scope: str, key: str, pauses_ms: Iterator[int]) -> Program[bool]:
    """False where a submit holds the key for long: nobody knows yet whether that will be committed."""
    while not (held := (yield one("unique_holder", scope=scope, key=key))):
        if not (yield one("unique_job", scope=scope, key=key)):
            return True
        if (pause_ms := next(pauses_ms, None)) is None:
            return False
        yield one("wait_for_key", pause_ms=pause_ms)
    return bool(held[0][0] != job_id)


def end_superseded(rows: Sequence[Row]) -> Program[list[Row]]:
    """The rows of `settle`, those of superseded jobs as they are after their end."""
    keyed = sorted(
        (idempotency_scope(row[_REQUESTER], row[_TYPE]), row[_KEY], row[_ID], row[_STATE], row[_CLAIM_VERSION])
        for row in rows
        if row[_KEY] is not None and row[_STATE] in _WAITS_AGAIN
    )
    superseded, pauses_ms = [], iter(PAUSES_MS)
    for scope, key, *job in keyed:
        if (yield from _is_superseded(job[0], scope, key, pauses_ms)):
            superseded.append(job)
    if not superseded:
        return list(rows)
    error = msgspec.json.encode(SUPERSEDED.as_error(0, retryable=False)).decode()
    ended = yield each(
        "end_waiting",
        id=[job_id for job_id, _, _ in superseded],
        claim_version=[version for _, _, version in superseded],
        from_state=[state for _, state, _ in superseded],
        state=[State.CANCELLED] * len(superseded),
        error=[error] * len(superseded),
        fingerprint=[None] * len(superseded),
    )
    moved = {row[0]: row for row in ended}
    return [(*moved[row[0]][:_CLAIM_VERSION], *row[_CLAIM_VERSION:]) if row[0] in moved else row for row in rows]
