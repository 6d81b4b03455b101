"""What workers of the HTTP protocol report under their lease tokens, and what they are answered."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.claims.outcome import Outcome
from euterpe.model.job import JobRow
from euterpe.model.state import State


class ShownLease(msgspec.Struct, frozen=True, gc=False):
    """A lease as a worker names it. Its token says whether it is the worker's own."""

    job_id: str
    claim_version: int
    worker_id: str
    token: str

    @property
    def claim(self) -> tuple[str, int]:
        return self.job_id, self.claim_version


def version_in(token: str) -> int | None:
    """The claim version that a token begins with. A heartbeat may come without an attempt's id."""
    digits = token.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


class Renewed(msgspec.Struct, frozen=True):
    """A lease that lives on."""

    claim_version: int
    expires_at: int
    cancel_requested: bool


class ProgressFields(msgspec.Struct, frozen=True, kw_only=True):
    """How far a running attempt got; None leaves a field as it is."""

    stage: str | None = None
    progress: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None


class TokenReport(ShownLease, frozen=True, gc=False):
    """An attempt's end as a worker tells it. The hash says whether a later report is the same one."""

    outcome: Outcome
    outcome_hash: bytes
    message: tuple[str, str] | None = None
    """The message of the wake-up, as the worker names it."""
    log: str | None = None
    """What the handler logged, as `LogBuffer.stored` gives it."""


class TokenReply(msgspec.Struct, frozen=True, gc=False):
    """What the job became. Without a state the report was refused and nothing was written."""

    state: State | None = None
    job: JobRow | None = None
    """The job as it was claimed, when this report settled it; None for a replay."""
    delay_us: int = 0
    """How long a retry waits."""
    why: str | None = None
    """Why it was refused, where it is not that the lease is gone."""

    @property
    def wakes_others(self) -> bool:
        """Whether other jobs may have become claimable by it."""
        return self.job is not None and (self.job.has_dependents or self.job.concurrency_key is not None)


REFUSED: Final = TokenReply()
