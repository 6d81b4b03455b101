"""Who is there: a bearer key becomes an identity, at the price of one statement every few seconds.

A verified key is believed for `key_ttl_s`, and never past its own expiry. What is remembered is the key's digest, so
that memory holds no secret. Nothing is looked up for text that cannot be a key, and lookups are few at a time, so
that a flood of invented keys cannot take the database from those with real ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Final, Protocol

from euterpe.model.accounts import Scope, StoredKey, split_key
from euterpe.model.errors import StoreUnavailable
from euterpe.server.http.asgi import Identity, Request
from euterpe.server.http.limits import RequestRate
from euterpe.server.http.problems import Refusal

KEYS_REMEMBERED: Final = 10_000
LOOKUPS_AT_ONCE: Final = 4
_CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="euterpe"')


class Keys(Protocol):
    """Where keys are found; `store.keys.ApiKeys` is the one."""

    async def find(self, prefix: str) -> StoredKey | None: ...


class Authenticator:
    """Lets requests in."""

    def __init__(
        self,
        keys: Keys,
        rate_limit: RequestRate,
        key_ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
        requester_limit: RequestRate | None = None,
    ) -> None:
        self._keys = keys
        self._rate_limit = rate_limit
        self._requester_limit = requester_limit
        self._ttl_s = key_ttl_s
        self._clock = clock
        self._verified: dict[bytes, tuple[Identity, float]] = {}
        self._asking: dict[bytes, asyncio.Task[Identity]] = {}
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def admit(self, request: Request, scope: Scope) -> Identity:
        """The identity behind the request's key: 401 without one, 403 without the scope, 429 when too fast."""
        identity = await self._identify(request)
        self.take_request(identity.prefix, identity.requester_id)
        if not identity.may(scope):
            has = ", ".join(sorted(identity.scopes))
            raise Refusal(403, "forbidden", f"this needs scope {scope}; the key has {has}")
        return identity

    def take_request(self, key_prefix: str, requester_id: str) -> None:
        """Count a request of this key; 429 when it comes too fast."""
        self._rate_limit.take(key_prefix)
        if self._requester_limit is not None:
            self._requester_limit.take(requester_id)

    async def still_allows(self, request: Request, scope: Scope) -> bool:
        """Whether the key of a request that goes on and on is still good. While nobody can tell, it is."""
        try:
            return (await self._identify(request)).may(scope)
        except Refusal:
            return False
        except StoreUnavailable:
            return True

    async def _identify(self, request: Request) -> Identity:
        key = _bearer(request)
        digest = hashlib.sha256(key).digest()
        known = self._verified.get(digest)
        if known is not None and known[1] > self._clock():
            return known[0]
        return await self._ask_once(key, digest)

    async def _ask_once(self, key: bytes, digest: bytes) -> Identity:
        """All who come with the same key meanwhile share one lookup."""
        parts = split_key(key.decode("ascii", "replace"))
        if parts is None:
            raise _unauthorized()
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.create_task(self._look_up(*parts, digest))
            asking.add_done_callback(lambda _: self._asking.pop(digest, None))
        return await asyncio.shield(asking)

    async def _look_up(self, prefix: str, secret: str, digest: bytes) -> Identity:
        async with self._lookups:
            asked_at = self._clock()
            stored = await self._keys.find(prefix)
        if stored is None or not stored.opens_with(secret) or stored.is_over:
            self._verified.pop(digest, None)
            raise _unauthorized()
        record = stored.record
        identity = Identity(record.requester_id, frozenset(record.scopes), record.prefix)
        cached_s = self._ttl_s
        if record.expires_at is not None:
            cached_s = min(cached_s, (record.expires_at - stored.read_at) / 1_000_000)
        if len(self._verified) >= KEYS_REMEMBERED:
            self._verified.clear()
        self._verified[digest] = (identity, asked_at + cached_s)
        return identity


def _bearer(request: Request) -> bytes:
    header = request.header(b"authorization")
    if header is None:
        raise _unauthorized("send the key as `Authorization: Bearer <key>`")
    scheme, _, key = header.partition(b" ")
    if scheme.lower() != b"bearer":
        raise _unauthorized("send the key as `Authorization: Bearer <key>`")
    return key.strip()


def _unauthorized(detail: str = "the key is unknown, expired or revoked") -> Refusal:
    return Refusal(401, "unauthorized", detail, headers=(_CHALLENGE,))
