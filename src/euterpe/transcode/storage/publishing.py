"""The step that makes an object visible, fenced: see the package for what it closes and what remains."""

from __future__ import annotations

import html
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from euterpe.model.failures.failure import Category
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.ports import Fence

Condition = Mapping[str, str]
Act = Callable[[Condition], Awaitable[str | None]]
CurrentEtag = Callable[[], Awaitable[str | None]]
"""The entity tag of what is there now, or None."""

FREE: Final[Condition] = {"if-none-match": "*"}
_WHATEVER: Final[Condition] = {}
_ROUNDS: Final = 8
_KNOWS_NO_CONDITIONS: Final = frozenset({400, 501})
"""How stores without conditional writes put it, before they write anything. A 400 of another kind comes again."""
_KEY: Final = re.compile(rb"<Key>([^<]{1,4096})</Key>")
_ETAG: Final = re.compile(rb"<ETag>([^<]{1,300})</ETag>")


async def publish(
    act: Act, current_etag: CurrentEtag, fence: Fence, is_ours: Callable[[str], bool] | None = None
) -> str | None:
    """Do it while the claim is current, on the condition that nobody has published meanwhile; returns the entity tag.

    What is there already is replaced: it belongs to an older attempt, or to an older request for the same key.
    `is_ours` knows an object that this very call has made, where the answer to it was lost.
    """
    condition = FREE
    for _ in range(_ROUNDS):
        await fence()
        try:
            return await act(condition)
        except StorageError as error:
            if condition and error.http_status in _KNOWS_NO_CONDITIONS:
                condition = _WHATEVER
                continue
            if not _is_conflict(error, condition):
                raise
        try:
            there = await current_etag()
        except StorageError as error:
            if error.is_transient:
                raise
            condition = _WHATEVER  # These credentials may write and not look.
            continue
        if there is not None and is_ours is not None and is_ours(there):
            return there
        condition = FREE if there is None else {"if-match": there}
    raise StorageError(
        "storage.contended", Category.TEMPORARY, Stage.UPLOADING, "others keep writing to the key of this output"
    )


def etag_in(body: bytes) -> str | None:
    """Out of the XML in which stores answer a copy or a completion."""
    found = _ETAG.search(body)
    return html.unescape(found.group(1).decode("utf-8", "replace")) if found else None


def keys_in(body: bytes) -> list[str]:
    """Out of the XML in which stores list objects."""
    return [html.unescape(found.decode("utf-8", "replace")) for found in _KEY.findall(body)]


def _is_conflict(error: StorageError, condition: Condition) -> bool:
    if error.http_status == 404:
        return "if-match" in condition and error.store_code == "NoSuchKey"  # What was there is gone.
    return error.http_status == 412 or (error.http_status == 409 and error.store_code == "ConditionalRequestConflict")
