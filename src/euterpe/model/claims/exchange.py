"""What a worker and a store exchange: claim requests, heartbeats, progress, and reports of attempts."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.claims.outcome import Outcome
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.state import State
from euterpe.model.submitting.submission import OVERRUN_US

LEASE_TTL_US = 60_000_000


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for up to `limit` jobs, which begin at once. `types` None means any type but a transcode, which needs our
    own worker. Queues are in order of preference.

    `prefetch` more may come if they can wait a moment: jobs of `prefetch_types` that nobody claimed before, with more
    than one attempt, and within the limit of their concurrency key. What is claimed is always the front of the line:
    the first job behind the limit that cannot wait ends it.

    `other_than`: only jobs of other requesters than these. Stores without a SQL database do not look at it.

    `worker_ids` names the worker of each place, if a control plane asks for several workers at once: first the places
    for what begins at once, then the others. The most urgent job gets the first place. `overrun_us` is how long a lease
    may outlast the deadline of its attempt: nobody can stop the handler of a worker over HTTP, so it has none. `number`
    is how whoever asks finds its claims again if the answer is lost."""

    worker_id: str
    limit: int
    prefetch: int = 0
    prefetch_types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ("default",)
    types: tuple[str, ...] | None = None
    lease_ttl_us: int = LEASE_TTL_US
    other_than: tuple[str, ...] = ()
    worker_ids: tuple[str, ...] = ()
    overrun_us: int = OVERRUN_US
    number: int = 0

    @property
    def total(self) -> int:
        return self.limit + self.prefetch

    @property
    def is_answerable(self) -> bool:
        """Whether any job can be the answer to it."""
        return self.total >= 1 and bool(self.queues) and self.types != ()

    def after(self, taken: int) -> ClaimRequest:
        """What is left to ask for when so many were taken."""
        over = max(0, taken - self.limit)
        return msgspec.structs.replace(
            self,
            limit=max(0, self.limit - taken),
            prefetch=max(0, self.prefetch - over),
            worker_ids=self.worker_ids[taken:],
        )

    def can_wait(self, job: JobRow) -> bool:
        """Whether a job of this claim may wait in the worker; `may_wait.sql` says the same of one that is not yet
        claimed. Nobody claimed it before: so it is charged for an attempt that never began once at most, even if its
        worker and the keeper of its leases die together, and the budget of two or more outlasts that."""
        return job.claim_version == 1 and job.max_attempts > 1 and job.type in self.prefetch_types


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The answer to one heartbeat. Not alive: the lease is gone, abort."""

    lease: Lease
    alive: bool
    expires_at: int = 0
    cancel_requested: bool = False
    renewed: bool = True
    """False for a living lease whose row somebody held: it was not waited for, and is as it was."""


class ProgressUpdate(msgspec.Struct, frozen=True):
    """The progress of a running attempt; None leaves a field as it is."""

    claim: Claim
    stage: str | None = None
    progress: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None
    waited_us: int = 0
    """How long the attempt waited inside its worker: the clock of its execution timeout is set back by it."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """An attempt and what came of it."""

    claim: Claim
    outcome: Outcome
    took_s: float = 0.0
    log: str | None = None
    """What the handler logged, as `LogBuffer.stored` gives it; None: nothing, or nobody keeps it."""
    outcome_hash: bytes | None = None
    """Of what a worker over HTTP said: by it a report that comes again is known. Such a worker completes its job, or
    gives it back, before its deadline or not at all."""


class SettleResult(msgspec.Struct, frozen=True, gc=False):
    """What a settled attempt's job became. Not accepted: the claim was stale and nothing was written, or, if `locked`,
    somebody held its row and it is to be settled again."""

    accepted: bool
    state: State | None = None
    delay_us: int = 0
    locked: bool = False


COMPLETED: Final = SettleResult(True, State.COMPLETED)
"""The common one: made once."""
