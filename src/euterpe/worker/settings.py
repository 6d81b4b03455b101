"""How a worker behaves, checked and in plain numbers."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.claims.attempt_log import LINES_KEPT
from euterpe.model.claims.exchange import LEASE_TTL_US
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.submitting.submission import RESULT_LIMIT

PROMOTE_S: Final = 1.0
"""How often the sweeps promote what is due, when nothing tells them earlier."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker behaves. `batch` bounds one claim."""

    worker_id: str
    queues: tuple[str, ...] = ("default",)
    concurrency: int = 100
    batch: int = 1000
    lease_ttl_us: int = LEASE_TTL_US
    poll_s: float = 1.0
    grace_s: float = 30.0
    result_limit: int = RESULT_LIMIT
    breaker: BreakerPolicy | None = BreakerPolicy()
    """When jobs that keep failing are left alone; None: never."""
    requester_share: float = 0.5
    """How much of the slots one requester may hold while jobs of others wait."""
    log_lines: int = LINES_KEPT
    """How many lines of what a handler logs are kept with its attempt, the newest; 0: none."""
