"""Every refusal as an RFC 9457 problem document: a `code` for programs, a `detail` for people, a pointer for 422.

What the rest of the house raises is translated here and nowhere else, so no route can answer 500 to bad input.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from euterpe.model.errors import (
    DataRejected,
    DependencyCycle,
    DependencyLimit,
    EuterpeError,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    JobNotFound,
    JobPruned,
    PayloadTooLarge,
    StaleLease,
    StoreUnavailable,
    UnknownDependency,
    UnprocessableRow,
    Unsupported,
)

PROBLEM_JSON: Final = b"application/problem+json"
RETRY_SOON: Final = (b"retry-after", b"1")


class FieldError(msgspec.Struct, frozen=True):
    """One of several things that are wrong with a body."""

    pointer: str
    code: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem document (RFC 9457). `pointer` is a JSON pointer to what is wrong in the body (or query)."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    pointer: str | None = None
    errors: list[FieldError] | None = None
    ok: bool | None = None
    ack: bool | None = None


class Refusal(Exception):
    """Says no. Raised anywhere below the router, which sends it as a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        pointer: str | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        closes: bool = False,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.pointer = pointer
        self.headers = (*headers, (b"connection", b"close")) if closes else headers
        self.members = members

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(
            Problem(
                type=f"urn:euterpe:problem:{self.code}",
                title=HTTPStatus(self.status).phrase,
                status=self.status,
                code=self.code,
                detail=self.detail,
                pointer=self.pointer,
                **self.members,
            )
        )


def refused_lease(detail: str) -> Refusal:
    """The worker no longer owns the job, or never did: nothing was written."""
    return Refusal(409, "stale_lease", detail, ok=False, ack=False)


def refusal_of(error: EuterpeError) -> Refusal:
    """What an error of the house means to an HTTP client."""
    match error:
        case InvalidInput():
            status, code = _invalid(error)
            return Refusal(status, code, error.reason, pointer=pointer_of(error.field))
        case IdempotencyConflict():
            return Refusal(409, "idempotency_conflict", str(error))
        case IllegalTransition():
            return Refusal(409, "illegal_transition", str(error))
        case JobPruned():
            return Refusal(410, "job_pruned", str(error))
        case JobNotFound():
            return Refusal(404, "not_found", str(error))
        case UnprocessableRow():
            return Refusal(409, "unprocessable_row", str(error))
        case StaleLease():
            return refused_lease(str(error))
        case StoreUnavailable():
            # The error's own words may name hosts and files, which are nobody's business out there.
            detail = "the database does not answer; what was acknowledged is safe, send the request again"
            return Refusal(503, "store_unavailable", detail, headers=(RETRY_SOON,))
        case DataRejected():
            return Refusal(422, "data_rejected", str(error))
        case Unsupported():
            return Refusal(501, "unsupported", str(error))
        case _:
            return internal_error()


def internal_error() -> Refusal:
    return Refusal(500, "internal_error", "something went wrong here, not in your request; it has been logged")


def _invalid(error: InvalidInput) -> tuple[int, str]:
    match error:
        case PayloadTooLarge():
            return 413, "payload_too_large"
        case UnknownDependency():
            return 422, "unknown_dependency"
        case DependencyCycle():
            return 422, "dependency_cycle"
        case DependencyLimit():
            return 422, "dependency_limit"
        case _:
            return 422, "invalid_input"


def pointer_of(field: str) -> str:
    """`tags.colour` is /tags/colour: only the first dot separates, a tag may have dots of its own."""
    return "".join(f"/{escaped(part)}" for part in field.split(".", 1))


def escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
