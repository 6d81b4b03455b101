"""Equal work, seen from one attempt: do it, wait for whoever does it, or copy what came of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from euterpe.transcode.schema.request import TranscodePayload
from euterpe.transcode.shared_work import SharedResult, SharedWork, SharedWorkStore, prefix_of, work_key_of
from euterpe.transcode.storage.errors import StorageError
from euterpe.transcode.storage.ports import Fence, UploadAttempt

LOOK_AGAIN_S: Final = 0.5

CopyResult = Callable[[SharedWork, SharedResult], Awaitable[dict[str, Any]]]


class EqualWork:
    """The share of one attempt. It holds no slot of an encoder while it waits."""

    def __init__(
        self, store: SharedWorkStore, payload: TranscodePayload, attempt: UploadAttempt, tool_version: str, fence: Fence
    ) -> None:
        self._store = store
        self._payload = payload
        self._attempt = attempt
        self._tool_version = tool_version
        self._fence = fence
        self._asked: str | None = None
        self._own: str | None = None

    async def result_for(self, source_sha256: str, copy: CopyResult) -> dict[str, Any] | None:
        """What another job made, copied here. None: this attempt has to do the work itself."""
        key = work_key_of(self._payload, source_sha256, self._tool_version)
        if key is None or key == self._asked:
            return None
        self._asked = key
        while True:
            await self._fence()
            if await self._store.take(key, self._attempt):
                self._own = key
                return None
            work = await self._store.get(key, self._attempt.job_id)
            if work is not None and work.result is not None and work.done_at is not None:
                try:
                    return await copy(work, work.result)
                except StorageError as error:
                    if error.is_transient:
                        raise
                    if not error.code.startswith("source."):
                        return None  # These credentials may not copy it.
                    await self._store.drop(key, self._attempt.job_id, work.done_at)
            elif work is not None:
                await asyncio.sleep(LOOK_AGAIN_S * random.uniform(0.5, 1.5))

    async def share(self, returned: dict[str, Any]) -> None:
        """The work is done: equal requests may copy it. What cannot be copied whole is not offered."""
        if self._own is not None and all(map(_is_listed_whole, returned["outputs"])):
            result = SharedResult(prefix_of(self._payload.destination), returned)
            await self._store.finish(self._own, self._attempt, result)


def _is_listed_whole(output: dict[str, Any]) -> bool:
    files = output.get("files", [])
    return output["etag"] is not None and len(files) == output.get("file_count", 0) and all(f["etag"] for f in files)
