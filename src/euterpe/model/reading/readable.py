"""Which columns of a stored job cannot be read. Older releases accepted more, and hands write anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from euterpe.model.errors import UnprocessableRow
from euterpe.model.job import JobRow
from euterpe.model.json_depth import is_too_deep
from euterpe.model.urls.http_url import BadUrl, parse_http_url

UNDELIVERABLE: Final = "invalid:"
"""The origin of an event whose URL cannot be read: the dispatcher refuses it, and says why."""

_READERS: Final[dict[str, Callable[[JobRow], Any]]] = {
    "tags": lambda job: job.tags,
    "stages": lambda job: job.stages,
    "retry_policy": lambda job: job.retry,
    "callback_url": lambda job: job.callback_url is None or parse_http_url(job.callback_url),
}


def unreadable_columns(job: JobRow) -> list[str]:
    """The columns, by name, that would stop a program that needs them."""
    found = []
    for column, read in _READERS.items():
        try:
            read(job)
        except (UnprocessableRow, BadUrl):
            found.append(column)
    return found


@lru_cache(maxsize=1024)  # asked for every event, of few receivers
def origin_of(url: str) -> str:
    try:
        return parse_http_url(url).origin
    except BadUrl:
        return UNDELIVERABLE


def columns_not_json(job: JobRow) -> list[str]:
    """The columns, by name, that say they are JSON and are not: they cannot be a part of a JSON answer."""
    found = []
    if job.payload_format == "json" and not is_json(job.payload):
        found.append("payload")
    checkpoint = job.checkpoint
    if checkpoint and checkpoint[:1] != b"b" and not is_json(checkpoint[1:]):
        found.append("checkpoint")
    return found


def is_json(stored: bytes) -> bool:
    """Whether every reader can decode it."""
    if is_too_deep(stored):
        return False
    try:
        msgspec.json.decode(stored, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return stored.isascii() or _is_utf8(stored)


def _is_utf8(stored: bytes) -> bool:
    try:
        stored.decode()
    except UnicodeDecodeError:
        return False
    return True
