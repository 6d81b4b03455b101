"""The credentials of one running job: opened once, refreshed before they run out or when they were refused.

However many parts of an upload find out at the same time, one refresh is under way. It ends when the stored version has
advanced, by whomever, or with an error that ends the attempt; the job's ordinary retries follow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from euterpe.crypto import MissingKek, SealBroken
from euterpe.model.failures.failure import Category
from euterpe.transcode.credentials.refresh import RefreshCalls, stage_of
from euterpe.transcode.credentials.repository import CredentialStore, StoredCredentials
from euterpe.transcode.schema.locations import AccessKeys, CredentialSet, SignedUrl
from euterpe.transcode.storage.errors import StorageError
from euterpe.transcode.storage.ports import Reason, Scope, UploadAttempt, Versioned, VersionedUrl

log = logging.getLogger("euterpe.transcode")

DECRYPT_TRIES: Final = 3
_LONGEST_WAIT_S: Final = 30.0


class UnreadableCredentials(StorageError):
    """The sealed credentials do not open. `give_up`: further attempts are pointless, the job is a dead letter."""

    give_up: bool = False


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """`ceiling` counts the calls of a whole job, over all its attempts."""

    ceiling: int = 20
    answer_s: float = 120.0
    """How long a requester may take to PUT fresh credentials after it was asked."""
    poll_s: float = 0.5
    retry_s: float = 2.0
    """The first wait after a call that failed; each further one is twice as long, up to half a minute."""
    ahead_s: float = 120.0
    """So long before they run out, fresh ones are asked for."""
    spare_s: float = 15.0
    """What is good for less than this is not used any more."""

    def wait_s(self, failures: int, error: StorageError) -> float:
        asked_s = (error.retry_after_us or 0) / 1e6
        return min(max(self.retry_s * 2.0**failures, asked_s), _LONGEST_WAIT_S)


@dataclass(frozen=True, slots=True)
class _Opened:
    stored: StoredCredentials
    secrets: CredentialSet


class CredentialProvider:
    """Close it: a refresh may be under way. `count` is told how each ended: refreshed, denied or failed."""

    def __init__(
        self,
        attempt: UploadAttempt,
        store: CredentialStore,
        calls: RefreshCalls,
        policy: RefreshPolicy | None = None,
        *,
        count: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._attempt = attempt
        self._store = store
        self._calls = calls
        self._policy = policy or RefreshPolicy()
        self._count = count
        self._clock = clock
        self._sleep = sleep
        self._opened: _Opened | None = None
        self._flight: asyncio.Task[None] | None = None
        self._asked_ahead_of: int | None = None

    async def keys(self, scope: Scope) -> Versioned:
        opened, keys = await self._usable(scope, lambda secrets: getattr(secrets, scope))
        assert isinstance(keys, AccessKeys)
        return Versioned(opened.stored.version, keys)

    async def url(self, output_id: str | None) -> VersionedUrl:
        scope: Scope = "source" if output_id is None else "destination"

        def pick(secrets: CredentialSet) -> SignedUrl | None:
            return secrets.source_url if output_id is None else secrets.put_urls.get(output_id)

        opened, signed = await self._usable(scope, pick)
        assert isinstance(signed, SignedUrl)
        return VersionedUrl(opened.stored.version, signed)

    async def renew(self, scope: Scope, seen: int, reason: Reason) -> None:
        while True:
            opened = await self._open(scope)
            if opened.stored.version > seen:
                return
            await self._refreshed(scope, reason)

    async def close(self) -> None:
        flight, self._flight = self._flight, None
        if flight is not None:
            flight.cancel()
            await asyncio.wait([flight])
        self._opened = None

    async def _usable(
        self, scope: Scope, pick: Callable[[CredentialSet], AccessKeys | SignedUrl | None]
    ) -> tuple[_Opened, AccessKeys | SignedUrl]:
        opened = await self._open(scope)
        picked = pick(opened.secrets)
        if picked is None:
            await self._refreshed(scope, "missing")
            opened = await self._open(scope)
            picked = pick(opened.secrets)
        if picked is None:
            raise _missing(scope)
        if picked.expires_at is None or opened.stored.refresh_url is None:
            return opened, picked
        left_s = picked.expires_at - self._clock()
        version = opened.stored.version
        if left_s >= self._policy.ahead_s or self._asked_ahead_of == version:
            return opened, picked
        self._asked_ahead_of = version
        if left_s > self._policy.spare_s:
            self._start(scope, "expiring")
            return opened, picked
        await self._refreshed(scope, "expired" if left_s <= 0 else "expiring")
        return await self._usable(scope, pick)

    async def _open(self, scope: Scope) -> _Opened:
        if self._opened is None:
            stored = await self._store.get(self._attempt.job_id)
            if stored is None:
                raise _missing(scope)
            self._opened = await self._unsealed(stored, scope)
        return self._opened

    async def _unsealed(self, stored: StoredCredentials, scope: Scope) -> _Opened:
        sealed = stored.sealed
        if sealed is None:
            return _Opened(stored, CredentialSet())  # Purged, and then the job was retried: fresh ones are asked for.
        try:
            return _Opened(stored, await self._store.unseal(stored, sealed))
        except MissingKek as error:
            raise UnreadableCredentials(
                "credentials.key_missing", Category.SYSTEM, stage_of(scope), str(error)
            ) from None
        except SealBroken:
            failures = await self._store.count_decrypt_failure(stored)
            broken = UnreadableCredentials(
                "credentials.unreadable", Category.SYSTEM, stage_of(scope), "the stored credentials do not open"
            )
            broken.give_up = failures >= DECRYPT_TRIES
            raise broken from None

    async def _refreshed(self, scope: Scope, reason: Reason) -> None:
        """Shielded: whoever is cancelled leaves the refresh to those who also wait for it."""
        await asyncio.shield(self._start(scope, reason))

    def _start(self, scope: Scope, reason: Reason) -> asyncio.Task[None]:
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._counted(scope, reason))
            self._flight.add_done_callback(_taken)
        return self._flight

    async def _counted(self, scope: Scope, reason: Reason) -> None:
        outcome = "failed"
        try:
            await self._refresh(scope, reason)
            outcome = "refreshed"
        except StorageError as error:
            outcome = "denied" if error.category is Category.PERMANENT else "failed"
            raise
        finally:
            if self._count is not None:
                self._count(outcome)

    async def _refresh(self, scope: Scope, reason: Reason) -> None:
        opened = await self._open(scope)
        seen, until = opened.stored.version, self._clock() + self._policy.answer_s
        if await self._advanced(seen, scope):
            return
        has_heard, failures = False, 0
        while self._clock() < until:
            wait_s = self._policy.poll_s
            if not has_heard:
                refusal = await self._ask(opened.stored, scope, reason)
                has_heard = refusal is None
                if refusal is not None:
                    wait_s = self._policy.wait_s(failures, refusal)
                    failures += 1
            await self._sleep(wait_s)
            if await self._advanced(seen, scope):
                return
        raise StorageError(
            "credentials.refresh_timeout",
            Category.TEMPORARY,
            stage_of(scope),
            f"no fresh credentials came within {self._policy.answer_s:g} s",
        )

    async def _ask(self, stored: StoredCredentials, scope: Scope, reason: Reason) -> StorageError | None:
        """None: the requester has heard. One call, counted before it is made."""
        if stored.refresh_url is not None:
            count = await self._store.count_refresh(self._attempt)
            if count > self._policy.ceiling:
                raise StorageError(
                    "credentials.refresh_exhausted",
                    Category.TEMPORARY,
                    stage_of(scope),
                    f"this job has asked for fresh credentials {self._policy.ceiling} times",
                )
        try:
            await self._calls.call(stored, scope, reason)
        except StorageError as error:
            if error.code != "credentials.refresh_failed":
                raise
            log.warning("a refresh call failed", extra={"job_id": stored.job_id, "error_code": error.code})
            return error
        return None

    async def _advanced(self, seen: int, scope: Scope) -> bool:
        version = await self._store.version(self._attempt.job_id)
        if version is None:
            raise _missing(scope)
        if version > seen:
            self._opened = None
            await self._open(scope)
        return version > seen


def _missing(scope: Scope) -> StorageError:
    return StorageError(
        "credentials.missing", Category.PERMANENT, stage_of(scope), f"the job has no credentials for its {scope}"
    )


def _taken(flight: asyncio.Task[None]) -> None:
    """A refresh ahead of time may fail with nobody waiting; the next use of the credentials tells."""
    if not flight.cancelled():
        flight.exception()
