"""What workers of the HTTP protocol report under their lease tokens, and what they are answered."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from euterpe.model.claims.outcome import Outcome
from euterpe.model.job import JobRow
from euterpe.model.state import State

RECEIPT_MARK: Final = "r."
"""How the token of a lease that stands on a receipt begins (ADR 017). A control plane of an older release does not know
such a lease until it is on its row."""


class TokenHeartbeat(msgspec.Struct, frozen=True):
    """Whose lease to renew. A claim version is checked too when it is given."""

    job_id: str
    token_hash: bytes
    claim_version: int | None = None


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


class TokenReport(msgspec.Struct, frozen=True):
    """An attempt's end as a worker tells it. The hash says whether a later report is the same one."""

    job_id: str
    claim_version: int
    token_hash: bytes
    outcome: Outcome
    outcome_hash: bytes
    message: tuple[str, str] | None = None
    """The message of the wake-up, as the worker names it."""
    log: str | None = None
    """What the handler logged, as `LogBuffer.stored` gives it."""


class Settled(msgspec.Struct, frozen=True):
    """What is told of an attempt that ended here and now."""

    queue: str
    type: str
    started_at: int | None
    has_callback: bool = False
    is_simple: bool = True
    """Whether nothing hangs on its end: no dependent, no callback, no concurrency key."""
    job: JobRow | None = None
    """As it ran; None where the fast path completed it, which tells no more."""
    delay_us: int = 0
    """How long a retry waits."""


class TokenReply(msgspec.Struct, frozen=True):
    """What the job became. Without a state the report was refused and nothing was written."""

    state: State | None = None
    settled: Settled | None = None
    """The attempt as it ran, when this report settled it; None for a replay."""
    wakes_others: bool = False
    """Whether other jobs may have become claimable by it."""
    why: str | None = None
    """Why it was refused, where it is not that the lease is gone."""


def hash_token(token: str) -> bytes:
    """Only the hash of a lease token is stored; it has 256 random bits, so a plain digest is enough."""
    return hashlib.sha256(token.encode()).digest()


REFUSED: Final = TokenReply()


LOCKED: Final = TokenReply(wakes_others=True)
"""Somebody holds the job's row: nothing was written yet. Never told to a worker."""
