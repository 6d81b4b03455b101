"""The answer to a store that refuses credentials: ask for fresh ones, then give the store time to learn them.

New keys of R2 and of AWS IAM may be refused with 403 for up to a minute, until every part of the store knows them. So a
403 to credentials that have just come is waited out; only then they count as credentials for something else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from euterpe.transcode.storage.errors import StorageError, access_denied
from euterpe.transcode.storage.ports import Credentials, Reason, Scope
from euterpe.transcode.storage.retrying import Sleep

EXPIRIES_LIMIT: Final = 3
"""Refreshes for one request. A slow part may see several short-lived credentials run out before its turn comes."""
SETTLING_S: Final = 60.0
"""So long a store may take to know new credentials."""
_LONGEST_WAIT_S: Final = 10.0


@dataclass(slots=True)
class Refusals:
    """What one request has met so far."""

    renewals: int = 0
    waits: int = 0
    waited_s: float = 0.0


class Renewing:
    """Of one reader or writer."""

    def __init__(
        self,
        credentials: Credentials,
        scope: Scope,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credentials = credentials
        self._scope: Scope = scope
        self._sleep = sleep
        self._clock = clock
        self._refused = 0
        """The highest version that was refused and then replaced: newer ones came after it."""
        self._renewed_at = 0.0

    async def after(self, error: StorageError, version: int, past: Refusals) -> None:
        """Return when the request is worth another try. Raises the error where it is not about credentials, and
        `storage.access_denied` where fresh ones are refused for a minute."""
        if not error.asks_for_credentials:
            raise error
        reason: Reason = "denied" if error.http_status == 403 else "expired"
        if reason == "denied" and (past.waits or self._is_new(version)):
            await self._wait(error, past)
        elif past.renewals >= EXPIRIES_LIMIT:
            raise access_denied(error)
        else:
            past.renewals += 1
            await self._renew(error, version, reason)

    def _is_new(self, version: int) -> bool:
        return version > self._refused > 0 and self._clock() - self._renewed_at < SETTLING_S

    async def _wait(self, error: StorageError, past: Refusals) -> None:
        wait_s = min(2.0**past.waits, _LONGEST_WAIT_S, SETTLING_S - past.waited_s)
        if wait_s <= 0:
            raise access_denied(error)
        past.waits += 1
        past.waited_s += wait_s
        await self._sleep(wait_s)

    async def _renew(self, error: StorageError, version: int, reason: Reason) -> None:
        try:
            await self._credentials.renew(self._scope, version, reason)
        except StorageError as failed:
            raise failed from error
        if version > self._refused:
            self._refused, self._renewed_at = version, self._clock()
