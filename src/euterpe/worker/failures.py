"""From an exception to the normalized failure of an attempt. Never raises: a job with odd errors still ends."""

from __future__ import annotations

import logging
import traceback

from euterpe.duration import parse_duration_us
from euterpe.model.errors import InvalidInput, PermanentError, StaleLease, TemporaryError, UnprocessableRow
from euterpe.model.failure import MESSAGE_LIMIT, STACK_LIMIT, UNPROCESSABLE_ROW, Category, Failure

log = logging.getLogger("euterpe.worker")

CODE_LIMIT = 200


class HandlerFailed(Exception):
    """The handler failed somewhere else, and there it was already said how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class BadPayload(Exception):
    """The stored payload does not fit the handler: written by an older version, or by hand."""


class UnstorableResult(Exception):
    """The handler's return value cannot be kept."""


def failure_of(error: BaseException) -> Failure:
    """Typed errors say what they are; any other exception is temporary."""
    match error:
        case HandlerFailed():
            return error.failure
        case BadPayload():
            return Failure(Category.PERMANENT, text_of(error), "bad_payload")
        case UnstorableResult():
            return Failure(Category.PERMANENT, text_of(error), "bad_result")
        case PermanentError():
            return Failure(Category.PERMANENT, text_of(error), _clean(error.code)[:CODE_LIMIT], _stack(error))
        case TemporaryError():
            return Failure(Category.TEMPORARY, text_of(error), "temporary", _stack(error), _retry_after_us(error))
        case UnprocessableRow():
            return Failure(Category.PERMANENT, text_of(error), UNPROCESSABLE_ROW, _stack(error))
        case StaleLease():
            return Failure(Category.SYSTEM, text_of(error), "stale_lease", _stack(error))
        case _:
            return Failure(Category.TEMPORARY, text_of(error), type(error).__name__[:CODE_LIMIT], _stack(error))


def text_of(error: BaseException) -> str:
    try:
        message = str(getattr(error, "message", None) or error)
    except Exception:  # noqa: BLE001  # an exception whose own __str__ fails
        message = ""
    return _clean(message)[:MESSAGE_LIMIT] or type(error).__name__


def _stack(error: BaseException) -> str:
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException) and error.__cause__ is None and cause is not error:
        error.__cause__ = cause
    return _clean("".join(traceback.format_exception(error)))[-STACK_LIMIT:]


def _retry_after_us(error: TemporaryError) -> int | None:
    try:
        return None if error.retry_after is None else parse_duration_us(error.retry_after, "retry_after")
    except InvalidInput as invalid:
        log.warning("a handler's retry_after is not a duration; the backoff decides", exc_info=invalid)
        return None


def _clean(text: object) -> str:
    """Fit for any database: no NUL, no lone surrogates."""
    return str(text).replace("\x00", "").encode("utf-8", "replace").decode()
