"""What goes wrong with media and stores, as the failure of an attempt: a code, a category, the stage and the output."""

from __future__ import annotations

from typing import Final

from euterpe.model.failures.failure import Category, Failure
from euterpe.transcode.handler.disk import DISK_FULL
from euterpe.transcode.handler.store_places import failed_place
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.schema.request import TranscodePayload
from euterpe.transcode.storage.errors import StorageError

INTERNAL: Final = "internal"


def failure_for(error: MediaError | StorageError, stage: str, attempt: int, payload: TranscodePayload) -> Failure:
    """`attempt` is the number of this try: some errors are worth one more, and no third."""
    if isinstance(error, StorageError):
        return Failure(
            error.category,
            error.message,
            error.code,
            retry_after_us=error.retry_after_us,
            http_status=error.http_status,
            # Asked for by name: only credentials that do not open say it, and not every installation has that part.
            give_up=bool(getattr(error, "give_up", False)),
            place=failed_place(error, payload.source, payload.destination),
            details={"stage": stage},
        )
    category = error.category
    if error.retries is not None and attempt > error.retries:
        category = Category.PERMANENT
    details = {"stage": stage}
    if error.output_id is not None:
        details["output_id"] = error.output_id
    # A job for which this worker has no room is left to others, uncharged.
    return Failure(category, error.message, error.code, details=details, unfit=error.code == DISK_FULL)


def internal_failure(stage: str) -> Failure:
    """A mistake of ours. Its own words stay in the log: nobody checked what is in them."""
    message = "something went wrong in the worker, not in the request; it has been logged"
    return Failure(Category.TEMPORARY, message, INTERNAL, details={"stage": stage})
