"""From an exception to the normalized failure of an attempt. Never raises: a job with odd errors still ends."""

from __future__ import annotations

import logging
import time
import traceback

from euterpe.model.duration import parse_duration_us
from euterpe.model.errors import PermanentError, StaleLease, TemporaryError, UnprocessableRow
from euterpe.model.failures.failure import (
    BAD_PAYLOAD,
    HANDLER_NOT_STARTED,
    MESSAGE_LIMIT,
    STACK_LIMIT,
    UNPROCESSABLE_ROW,
    Category,
    Failure,
    category_of_status,
)
from euterpe.model.failures.http_error import HTTPError

log = logging.getLogger("euterpe.worker")

CODE_LIMIT = 200


class HandlerFailed(Exception):
    """The handler failed somewhere else, and there it was already said how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class GivenBack(Exception):
    """The handler did nothing that lasts, and gives its job back as it was: the attempt is refunded."""


class BadPayload(Exception):
    """The stored payload does not fit the handler: written by another version, or by hand."""


class HandlerNotStarted(Exception):
    """No thread or process could be had for the handler: the trouble of this worker, and not of the job."""


class UnstorableResult(Exception):
    """The handler's return value cannot be kept."""


def failure_of(error: BaseException) -> Failure:
    """Typed errors say what they are; any other exception is temporary. Never raises, whatever the exception's own
    methods and attributes do."""
    try:
        return _described(error)
    except BaseException as worse:  # noqa: BLE001  # its __str__, its code, its metaclass: nothing of it can be trusted
        log.warning("an exception of a handler cannot be described", extra={"error_code": _type_name(worse)})
        return Failure(Category.TEMPORARY, _type_name(error), _type_name(error))


def _described(error: BaseException) -> Failure:
    match error:
        case HandlerFailed():
            return error.failure
        case BadPayload():
            return Failure(Category.SYSTEM, text_of(error), BAD_PAYLOAD, unfit=True)
        case HandlerNotStarted():
            return Failure(Category.SYSTEM, text_of(error), HANDLER_NOT_STARTED, unfit=True)
        case UnstorableResult():
            return Failure(Category.PERMANENT, text_of(error), "bad_result")
        case PermanentError():
            return Failure(Category.PERMANENT, text_of(error), _clean(error.code)[:CODE_LIMIT], _stack(error))
        case TemporaryError():
            return Failure(Category.TEMPORARY, text_of(error), "temporary", _stack(error), _retry_after_us(error))
        case HTTPError():
            return _refused(error)
        case UnprocessableRow():
            return Failure(Category.PERMANENT, text_of(error), UNPROCESSABLE_ROW, _stack(error))
        case StaleLease():
            return Failure(Category.SYSTEM, text_of(error), "stale_lease", _stack(error))
        case _:
            return Failure(Category.TEMPORARY, text_of(error), _type_name(error), _stack(error))


def _refused(error: HTTPError) -> Failure:
    return Failure(
        category_of_status(error.status),
        text_of(error),
        f"http_{error.status}",
        _stack(error),
        error.wait_us(time.time()),
        error.status,
    )


def text_of(error: BaseException) -> str:
    try:
        message = _clean(getattr(error, "message", None) or error)
    except BaseException:  # noqa: BLE001  # an exception whose own __str__ fails
        message = ""
    return message[:MESSAGE_LIMIT] or _type_name(error)


def _stack(error: BaseException) -> str | None:
    try:
        cause = getattr(error, "cause", None)
        if isinstance(cause, BaseException) and error.__cause__ is None and cause is not error:
            error.__cause__ = cause
        return _clean("".join(traceback.format_exception(error)))[-STACK_LIMIT:]
    except BaseException:  # noqa: BLE001  # a stack is a help; an error without one still is the job's error
        return None


def _retry_after_us(error: TemporaryError) -> int | None:
    try:
        return None if error.retry_after is None else parse_duration_us(error.retry_after, "retry_after")
    except BaseException as nonsense:  # noqa: BLE001  # an InvalidInput, or whatever an odd object raises when it is read
        code = {"error_code": _type_name(nonsense)}
        log.warning("a handler's retry_after is not a duration; the backoff decides", extra=code)
        return None


def _type_name(error: BaseException) -> str:
    """The class's name as the interpreter has it: a metaclass may answer anything else."""
    return _clean(type.__dict__["__name__"].__get__(type(error)))[:CODE_LIMIT]


def _clean(text: object) -> str:
    """Fit for any database: no NUL, no lone surrogates. A plain `str`, also where `__str__` gave a subclass."""
    return str.encode(str.replace(str(text), "\x00", ""), "utf-8", "replace").decode()
