"""What can go wrong between us and a store: one type, with a code, a category and the exact HTTP status.

Messages name hosts, buckets and keys. They never hold a query string, a header, or words of the store's own answer:
stores like to repeat what they were sent.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from euterpe.model.errors import EuterpeError
from euterpe.model.failures.failure import Category, category_of_status

_STORE_CODE: Final = re.compile(rb"<Code>\s*([A-Za-z0-9._-]{1,64})\s*</Code>")
_IS_ERROR: Final = re.compile(rb"<Error[\s>]")


class Stage(StrEnum):
    """Where in a job it happened; the names are the job's own stages."""

    FETCHING = "fetching"
    UPLOADING = "uploading"


EXPIRED_CODES: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidToken",
        "ExpiredRequest",
        "RequestExpired",
        "TokenRefreshRequired",
        "AccessDenied",
    }
)
"""With these, 400 means that the credentials are over. AccessDenied: rclone's word for a signed URL that is."""
_NOT_OUR_CREDENTIALS: Final = frozenset({"RequestTimeTooSkewed"})
_THROTTLED_CODES: Final = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded"})


class StorageError(EuterpeError):
    """A source could not be read, or an output not be written."""

    def __init__(
        self,
        code: str,
        category: Category,
        stage: Stage,
        message: str,
        *,
        http_status: int | None = None,
        store_code: str | None = None,
        retry_after_us: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.category = category
        self.stage = stage
        self.message = message
        self.http_status = http_status
        self.store_code = store_code
        """The store's own word for it, such as `NoSuchKey`."""
        self.retry_after_us = retry_after_us

    @property
    def asks_for_credentials(self) -> bool:
        """Whether fresh credentials may help."""
        return is_refusal_of_credentials(self.http_status, self.store_code)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed in a moment. A refresh that failed has made its own tries."""
        if self.asks_for_credentials or self.code.startswith("credentials."):
            return False
        return self.category in (Category.TEMPORARY, Category.TIMEOUT)


def is_refusal_of_credentials(http_status: int | None, store_code: str | None) -> bool:
    if store_code in _NOT_OUR_CREDENTIALS:
        return False
    return http_status in (401, 403) or (http_status == 400 and store_code in EXPIRED_CODES)


def store_code_of(body: bytes) -> str | None:
    """The code out of an S3 error document. Nothing else of it is ever repeated."""
    found = _STORE_CODE.search(body)
    return found.group(1).decode("ascii") if found else None


def is_error_document(body: bytes) -> bool:
    """A store may begin its answer with 200 and find out later that it failed."""
    return _IS_ERROR.search(body) is not None


def refused(
    stage: Stage, place: str, http_status: int, store_code: str | None = None, retry_after_us: int | None = None
) -> StorageError:
    """The error for an answer that is not a success."""
    status = f"{http_status} {store_code}" if store_code else str(http_status)
    code, category = _judge(stage, http_status, store_code)
    return StorageError(
        code,
        category,
        stage,
        f"{place}: the store answered {status}",
        http_status=http_status,
        store_code=store_code,
        retry_after_us=retry_after_us or None,
    )


def _judge(stage: Stage, http_status: int, store_code: str | None) -> tuple[str, Category]:
    if is_refusal_of_credentials(http_status, store_code):
        # Temporary until a refresh has been tried: whoever owns the credentials may send fresh ones at any time.
        return "storage.unauthorized", Category.TEMPORARY
    if store_code in _NOT_OUR_CREDENTIALS:
        return "storage.clock_skew", Category.SYSTEM
    match http_status:
        case 404 if stage is Stage.FETCHING:
            return "source.not_found", Category.PERMANENT
        case 404:
            return "storage.not_found", Category.PERMANENT
        case 412 if stage is Stage.FETCHING:
            return "source.changed", Category.PERMANENT
        case 423:
            return "storage.locked", Category.TEMPORARY
        case 301 | 302 | 303 | 307 | 308:
            return "storage.redirected", Category.PERMANENT
    if http_status == 429 or store_code in _THROTTLED_CODES:
        return "storage.throttled", Category.TEMPORARY
    if store_code == "RequestTimeout":
        return "storage.timeout", Category.TEMPORARY
    if http_status >= 500:
        return "storage.unavailable", Category.TEMPORARY if http_status != 501 else Category.PERMANENT
    return "storage.refused", category_of_status(http_status)


def access_denied(error: StorageError) -> StorageError:
    """Fresh credentials were refused as well. The job's further attempts may ask for others."""
    return StorageError(
        "storage.access_denied",
        Category.TEMPORARY,
        error.stage,
        f"{error.message}, and credentials that were just refreshed are refused too: check their scope",
        http_status=error.http_status,
        store_code=error.store_code,
    )


def late_failure(place: str, body: bytes) -> StorageError:
    """A copy or a completion that was answered 200 and then failed after all."""
    return StorageError(
        "storage.unavailable",
        Category.TEMPORARY,
        Stage.UPLOADING,
        f"{place}: the store took the request and failed later",
        http_status=200,
        store_code=store_code_of(body),
    )
