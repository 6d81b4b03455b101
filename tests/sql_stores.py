"""For tests that look behind the port."""

from __future__ import annotations

from random import Random

from euterpe.model.claims.outcome import Outcome
from euterpe.model.claims.worker_reports import ShownLease, TokenReport
from euterpe.model.job import Claim
from euterpe.ports import Store
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.worker_protocol.store import WorkerProtocolStore


def sql(store: Store) -> SqlStore:
    """The SQL store that a queue or a backend of the test is known to have."""
    assert isinstance(store, SqlStore)
    return store


def worker_protocol(engine: Engine, rng: Random | None = None) -> WorkerProtocolStore:
    """The control plane's side of a store on this engine, as one more process has it."""
    return SqlStore(engine, rng=rng).control_plane


def shown(claim: Claim) -> ShownLease:
    """A lease as its HTTP worker shows it."""
    return ShownLease(claim.job.id, claim.job.claim_version, claim.job.worker_id or "", claim.lease.token or "")


def report_of(claim: Claim, outcome: Outcome, outcome_hash: bytes = b"h" * 32) -> TokenReport:
    lease = shown(claim)
    return TokenReport(lease.job_id, lease.claim_version, lease.worker_id, lease.token, outcome, outcome_hash)
