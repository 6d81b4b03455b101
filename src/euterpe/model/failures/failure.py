"""Why an attempt ended badly: exactly one of five categories, and the rule that HTTP statuses follow."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec


class Category(StrEnum):
    """The kind of a failure. Temporary, timeout and system failures are retried."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SYSTEM = "system"


RETRYABLE: Final = frozenset({Category.TEMPORARY, Category.TIMEOUT, Category.SYSTEM})

MESSAGE_LIMIT: Final = 4_000
STACK_LIMIT: Final = 16_000


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The normalized error of one attempt, as stored, shown and sent."""

    category: Category
    message: str
    code: str = "error"
    stack: str | None = None
    retry_after_us: int | None = None
    http_status: int | None = None
    give_up: bool = False
    """Unrecoverable by policy: the job becomes a dead letter, whatever is left of its budget."""
    unfit: bool = False
    """This worker cannot run the job now: the arguments do not fit its handler, it has no thread or no room left, a
    circuit is open, or a suspect waits for its turn. No fault of the job, which is left to others or to later."""
    place: str | None = None
    """The host, store or account that failed, where the handler names one: circuit breakers count it alone."""
    details: dict[str, str] | None = None
    """More members of the error document, which a job type has names for."""

    def as_error(self, attempt: int, *, retryable: bool) -> dict[str, Any]:
        """The error document of the job, webhook and API."""
        error: dict[str, Any] = {
            "code": _encodable(self.code),
            "category": str(self.category),
            "message": _encodable(self.message[:MESSAGE_LIMIT]),
            "retryable": retryable,
            "attempt": attempt,
        }
        if self.stack:
            error["stack"] = _encodable(self.stack[-STACK_LIMIT:])
        if self.http_status is not None:
            error["http_status"] = self.http_status
        for name, value in (self.details or {}).items():
            error.setdefault(name, _encodable(value))
        return error


def _encodable(text: str) -> str:
    """An exception may carry lone surrogates (an odd file name will do); they must not keep its attempt open."""
    return text if text.isascii() else text.encode(errors="replace").decode()


OWN_TROUBLE: Final = "worker."
"""Codes that begin so tell of the worker's own machine, such as a full disk. No circuit breaker counts them."""
CIRCUIT_OPEN: Final = "circuit_open"

_TEMPORARY_STATUSES: Final = frozenset({423, 429, 500, 502, 503, 504})


def category_of_status(http_status: int) -> Category:
    """423, 429 and the 5xx of the contract may succeed later; every other refusal will repeat itself.

    401 and 403 from storage never come here: they start a credential refresh first.
    """
    return Category.TEMPORARY if http_status in _TEMPORARY_STATUSES else Category.PERMANENT


UNPROCESSABLE_ROW: Final = "unprocessable_row"
BAD_PAYLOAD: Final = "bad_payload"
HANDLER_NOT_STARTED: Final = "handler_not_started"


def unprocessable(why: str) -> Failure:
    """The end of a job whose stored row cannot be read."""
    return Failure(Category.PERMANENT, f"the stored row of this job cannot be processed: {why}", UNPROCESSABLE_ROW)


LOST_LEASE: Final = Failure(
    Category.SYSTEM,
    "the worker stopped renewing its lease (it died, froze or lost the database)",
    code="lost_lease",
)
NOT_ITS_TURN: Final = Failure(
    Category.SYSTEM,
    "a worker was lost while it ran such jobs; they start a few at a time and at last alone, and this one waits",
    code="waits_for_its_turn",
    unfit=True,
)
TIMED_OUT: Final = Failure(
    Category.TIMEOUT, "the execution timeout is over, and the worker did not end the attempt", code="timeout"
)
LIFETIME_OVER: Final = Failure(Category.TIMEOUT, "the job's total lifetime is over", code="lifetime_exceeded")
BUDGET_SPENT: Final = Failure(Category.TEMPORARY, "no attempts are left", code="budget_exhausted")
