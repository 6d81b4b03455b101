"""Why a job failed, as an object with names: what `job.error`, `attempt.error` and `JobFailed.error` hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from euterpe.model.failures.failure import Category, unprocessable


class JobError(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed.

    `code` is the name of the exception's class, or the `code` that the handler gave. `category` is one of five kinds.
    `retryable` says whether another attempt was allowed. `attempt` is the number of the attempt that failed. `stack`
    is the traceback, if there is one. `http_status` is the status that a remote service answered with.

    Example:
        job = await queue.get(job_id)
        if job.error is not None:
            print(job.error.code, job.error.message)
    """

    code: str
    category: Category
    message: str
    retryable: bool = False
    attempt: int = 0
    stack: str | None = None
    http_status: int | None = None


def error_of(document: Mapping[str, Any] | None) -> JobError | None:
    """The stored error as an object. One that an older release or a hand wrote must not hide its job."""
    if document is None:
        return None
    try:
        return msgspec.convert(dict(document), JobError)
    except msgspec.ValidationError:
        return msgspec.convert(unprocessable("its error cannot be read").as_error(0, retryable=False), JobError)
