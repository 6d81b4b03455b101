"""A request and a job as the oracle keeps them: plain words and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000
DAY = 86_400 * SECOND
TERMINAL = ("completed", "failed", "dead_letter", "cancelled")
STAGES = ("claimed",)


@dataclass
class Said:
    """A request as the user makes it."""

    type: str
    priority: int = 2
    delay: int = 0
    max_attempts: int = 3
    lifetime: int = 7 * DAY
    visibility: int = 300 * SECOND
    callback: str | None = None
    depends_on: tuple[str, ...] = ()
    kind: str = "after"
    key: str | None = None
    limit: int | None = None
    """How many jobs of this type with a limit may run at once."""

    def same_request(self) -> tuple[Any, ...]:
        return (self.type, self.priority, self.delay, self.max_attempts, self.lifetime, self.visibility,
                self.callback, self.depends_on, self.kind, self.limit)  # fmt: skip


@dataclass
class OracleJob:
    id: str
    place: int
    said: Said
    state: str
    priority: int
    run_at: int
    created_at: int
    expires_at: int
    depth: int = 1
    attempts: int = 0
    lost: int = 0
    """Attempts in a row that ended with a lost worker."""
    refunded: int = 0
    """Those of them that have been given back."""
    releases: int = 0
    version: int = 0
    stage: str | None = None
    worker: str | None = None
    lease: int | None = None
    beaten_at: int = 0
    scheduled_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    cancel_seen: int | None = None
    transitions: int = 1
    result: bytes | None = None
    error_code: str | None = None
    progress: float | None = None
    checkpoint: bytes | None = None
    parent: str | None = None
    replay_of: str | None = None
    edges: set[str] = field(default_factory=set)
    waits: set[str] = field(default_factory=set)
    waits_no_more: bool = False
    """One of those it waits for ended it, and an operator retried it."""
    closed: list[tuple[int, int, str, str]] = field(default_factory=list)
    """(version, attempt, outcome, state)"""

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def pending_count(self) -> int:
        if self.state != "pending":
            return 0
        return 1 if self.said.kind == "after_any" else len(self.waits)


@dataclass
class Key:
    request: tuple[Any, ...]
    job_id: str
    expires_at: int
