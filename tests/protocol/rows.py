"""The rows of the receipt protocol (ADR 017), and what each of its statements does to one of them.

A change is given the newest version of a row, as Postgres is after it has waited for the row's lock, and says what the
row becomes, or None where its WHERE does not hold. `flaws` names the planted bugs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

TERMINAL: Final = frozenset({"completed", "cancelled", "dead_letter"})


class Job(NamedTuple):
    """What the protocol needs of a job's row."""

    chunked: bool = True
    """Its column `chunk` is set."""
    state: str = "scheduled"
    version: int = 0
    attempts: int = 0
    max_attempts: int = 2
    worker: int | None = None
    releases: int = 0
    cancel_asked: bool = False
    has_dependents: bool = False
    dependents_told: bool = False
    """The write that ended it has looked for dependents."""
    ends: int = 0
    """How often it was ended; not a column."""

    @property
    def is_plain(self) -> bool:
        """It waits in a chunk, or was claimed under a receipt."""
        return self.chunked and self.state == "scheduled"


Jobs = frozenset[int]
Value = Job | Jobs | None
"""A job; the jobs of a chunk or of a receipt; None: there is no such row."""
Change = Callable[..., Value]


def take(chunk: Jobs, limit: int, flaws: frozenset[str]) -> Value:
    """claim: the front of the chunk is cut off; an empty chunk is deleted. What was cut is what RETURNING gives."""
    del flaws
    return frozenset(sorted(chunk)[limit:]) or EMPTY


def remove(members: Jobs, gone: Jobs, flaws: frozenset[str]) -> Value:
    """Take jobs out of a chunk."""
    del flaws
    return (members - gone or EMPTY) if gone <= members else None


def delete(members: Jobs, flaws: frozenset[str]) -> Value:
    del members, flaws
    return EMPTY


EMPTY: Final = frozenset[int]()
"""Of a chunk or a receipt: the row is deleted."""


def hold(value: Value, flaws: frozenset[str]) -> Value:
    """SELECT ... FOR NO KEY UPDATE."""
    del flaws
    return value


def unchunk(job: Job, flaws: frozenset[str]) -> Value:
    """It is taken out of its chunk, and waits in the claim index from now on."""
    if "unchunk_keeps_the_flag" in flaws:
        return job
    return job._replace(chunked=False) if job.is_plain else None


def materialise(job: Job, worker: int, flaws: frozenset[str]) -> Value:
    """The claim that a receipt stands for is written onto the row."""
    if job.state != "scheduled" and "materialise_without_state" not in flaws:
        return None
    if not job.chunked and "materialise_without_flag" not in flaws:
        return None
    version = 0 if "materialise_keeps_the_version" in flaws else 1
    return job._replace(chunked=False, state="running", version=version, attempts=1, worker=worker)


def claim_chunked(job: Job, worker: int, flaws: frozenset[str]) -> Value:
    """The full path claims a job of a chunk straight onto its row."""
    if not job.is_plain:
        return None
    chunked = "full_claim_keeps_the_flag" in flaws
    return job._replace(chunked=chunked, state="running", version=1, attempts=1, worker=worker)


def claim_row(job: Job, worker: int, flaws: frozenset[str]) -> Value:
    """Today's claim, of a job that is in the claim index."""
    del flaws
    if job.chunked or job.state != "scheduled":
        return None
    return job._replace(state="running", version=job.version + 1, attempts=job.attempts + 1, worker=worker)


def complete_plain(job: Job, flaws: frozenset[str]) -> Value:
    """The plain settle: the row is the fence."""
    if not job.chunked and "fence_without_flag" not in flaws:
        return None
    if job.state != "scheduled" and "fence_without_state" not in flaws:
        return None
    if job.has_dependents and "fence_without_dependents" not in flaws:
        return None
    return job._replace(state="completed", version=1, attempts=1, ends=job.ends + 1)


def settle(job: Job, version: int, how: str, flaws: frozenset[str]) -> Value:
    """Today's settle, fenced by version and lease."""
    if job.state != "running" or job.version != version:
        return None
    if how == "complete":
        return _ended(job, "completed")
    job = job._replace(worker=None, cancel_asked=False)
    if how == "release":
        return job._replace(state="scheduled", attempts=job.attempts - 1, releases=job.releases + 1)
    del flaws
    return _ended(job, "dead_letter") if job.attempts >= job.max_attempts else job._replace(state="scheduled")


def end_waiting(job: Job, state: str, version: int, flaws: frozenset[str]) -> Value:
    del flaws
    return _ended(job, state) if job.state == "scheduled" and job.version == version else None


def take_away(job: Job, state: str, version: int, flaws: frozenset[str]) -> Value:
    """Force and lifetime: fenced off first, by a version that no claim has."""
    del flaws
    if job.state != "running" or job.version != version:
        return None
    return _ended(job, state)._replace(version=version + 1)


def ask_cancel(job: Job, version: int, flaws: frozenset[str]) -> Value:
    del flaws
    return job._replace(cancel_asked=True) if job.state == "running" and job.version == version else None


def mark_dependents(job: Job, flaws: frozenset[str]) -> Value:
    del flaws
    return job._replace(has_dependents=True) if job.state not in TERMINAL else None


def _ended(job: Job, state: str) -> Job:
    return job._replace(state=state, worker=None, dependents_told=True, ends=job.ends + 1)


CHANGES: Final[dict[str, Change]] = {
    change.__name__: change
    for change in (
        take,
        remove,
        delete,
        hold,
        unchunk,
        materialise,
        claim_chunked,
        claim_row,
        complete_plain,
        settle,
        end_waiting,
        take_away,
        ask_cancel,
        mark_dependents,
    )
}
