"""What a worker and a store tell each other: claims asked for, heartbeats, news, and ends of attempts."""

from __future__ import annotations

import msgspec

from euterpe.model.claims.outcome import Outcome
from euterpe.model.job import Claim, Lease
from euterpe.model.state import State

LEASE_TTL_US = 60_000_000


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for up to `limit` jobs. `types` None means any type; queues are in order of preference."""

    worker_id: str
    limit: int
    queues: tuple[str, ...] = ("default",)
    types: tuple[str, ...] | None = None
    lease_ttl_us: int = LEASE_TTL_US
    with_tokens: bool = False


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The answer to one heartbeat. Not alive: the lease is gone, abort."""

    lease: Lease
    alive: bool
    expires_at: int = 0
    cancel_requested: bool = False
    renewed: bool = True
    """False for a living lease whose row somebody held: it was not waited for, and is as it was."""


class Advance(msgspec.Struct, frozen=True):
    """News of a running attempt; None leaves a field as it is."""

    claim: Claim
    stage: str | None = None
    progress: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None


class Report(msgspec.Struct, frozen=True, gc=False):
    """An attempt and what came of it."""

    claim: Claim
    outcome: Outcome
    took_s: float = 0.0


class SettleResult(msgspec.Struct, frozen=True, gc=False):
    """What a settled attempt's job became. Not accepted: the claim was stale and nothing was written, or, if `locked`,
    somebody held its row and it is to be settled again."""

    accepted: bool
    state: State | None = None
    delay_us: int = 0
    locked: bool = False
