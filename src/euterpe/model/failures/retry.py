"""When a failed attempt is tried again: the backoff, and which failure categories are worth a retry."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from euterpe.model.failures.backoff import (
    DEFAULT_BACKOFF,
    LONGEST_DELAY_US,
    Backoff,
    backoff_from_wire,
    backoff_to_wire,
)
from euterpe.model.failures.failure import RETRYABLE, Category, Failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """TIMEOUT and SYSTEM failures are retried unless the job says otherwise (003 section 8)."""

    backoff: Backoff = DEFAULT_BACKOFF
    on_timeout: bool = True
    on_system: bool = True

    def retries(self, category: Category) -> bool:
        if category is Category.TIMEOUT:
            return self.on_timeout
        if category is Category.SYSTEM:
            return self.on_system
        return category in RETRYABLE

    def delay_us(self, failure: Failure, attempt: int, rng: Random) -> int:
        """A 429 jumps two buckets ahead; a `retry_after` wins when it is longer."""
        bucket = attempt + 2 if failure.http_status == 429 else attempt
        return min(max(self.backoff.delay_us(bucket, rng), failure.retry_after_us or 0), LONGEST_DELAY_US)


DEFAULT_RETRY: Final = RetryPolicy()


def retry_to_wire(policy: RetryPolicy) -> dict[str, Any] | None:
    """None means the default, so that the common row stays lean."""
    stored: dict[str, Any] = backoff_to_wire(policy.backoff) or {}
    if not policy.on_timeout:
        stored["on_timeout"] = False
    if not policy.on_system:
        stored["on_system"] = False
    return stored or None


def retry_from_wire(stored: dict[str, Any] | None) -> RetryPolicy:
    if not stored:
        return DEFAULT_RETRY
    rest = dict(stored)
    on_timeout, on_system = rest.pop("on_timeout", True), rest.pop("on_system", True)
    return RetryPolicy(backoff_from_wire(rest), on_timeout, on_system)
