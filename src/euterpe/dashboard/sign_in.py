"""Who is there: an API key becomes a session, a session a visitor.

The cookie holds 256 random bits and the database their hash. The token that every form carries is derived from the
cookie, which no other site can read, so nothing more needs to be stored. Before anybody has signed in, the cookie is
just as random and stands for nobody: the sign-in form is guarded too, and signing in always changes the cookie.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from euterpe.model.accounts import Scope, StoredKey, split_key
from euterpe.ports import Sessions
from euterpe.server.auth import LOOKUPS_AT_ONCE, Keys
from euterpe.server.http.asgi import Header, Request

COOKIE: Final = "euterpe_session"
LIFETIME_S: Final = 12 * 3600
BELIEVED_S: Final = 3.0
"""As long as the API believes a key: a revoked one opens nothing any more after this."""
REMEMBERED: Final = 1_000
LINK_LASTS_S: Final = 3600.0
_COOKIE: Final = re.compile(rf"(?:^|;\s*){COOKIE}=([A-Za-z0-9_-]{{43}})(?:;|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever is signed in."""

    requester_id: str
    key_prefix: str
    is_admin: bool
    form_token: str

    @property
    def sees(self) -> str | None:
        """Whose jobs: None is everybody's."""
        return None if self.is_admin else self.requester_id


class SignIn:
    """Sessions over one database, and links that sign in once."""

    def __init__(self, keys: Keys, sessions: Sessions, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._sessions = sessions
        self._clock = clock
        self._known: dict[bytes, tuple[Visitor, float]] = {}
        self._links: dict[bytes, tuple[str, float]] = {}
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def visitor(self, request: Request) -> Visitor | None:
        """Whose cookie this is; None for nobody's."""
        token = cookie_of(request)
        if token is None:
            return None
        digest = hash_of(token)
        known = self._known.get(digest)
        if known is not None and known[1] > self._clock():
            return known[0]
        asked_at = self._clock()
        async with self._lookups:
            stored = await self._sessions.find(digest)
        visitor = None if stored is None else _visitor_of(stored, token)
        if visitor is None:
            self._known.pop(digest, None)
            return None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[digest] = (visitor, asked_at + BELIEVED_S)
        return visitor

    async def with_key(self, text: str) -> str | None:
        """The cookie of a new session for this key; None when the key opens nothing here."""
        parts = split_key(text.strip())
        if parts is None:
            return None
        async with self._lookups:
            stored = await self._keys.find(parts[0])
        if stored is None or not stored.opens_with(parts[1]) or _visitor_of(stored, "") is None:
            return None
        return await self._begin(parts[0])

    async def with_link(self, once: str) -> str | None:
        """The cookie of a new session for whoever comes with this link, the first time."""
        prefix, until = self._links.pop(hash_of(once), ("", 0.0))
        return await self._begin(prefix) if until > self._clock() else None

    def new_link(self, key_prefix: str) -> str:
        """What signs in once, in this process, within the hour."""
        once = secrets.token_urlsafe(32)
        self._links[hash_of(once)] = (key_prefix, self._clock() + LINK_LASTS_S)
        return once

    async def end(self, request: Request) -> None:
        token = cookie_of(request)
        if token is not None:
            self._known.pop(hash_of(token), None)
            await self._sessions.end(hash_of(token))

    async def _begin(self, key_prefix: str) -> str:
        token = secrets.token_urlsafe(32)
        await self._sessions.begin(hash_of(token), key_prefix, LIFETIME_S * 1_000_000)
        return token


def _visitor_of(stored: StoredKey, token: str) -> Visitor | None:
    """A key that may read; a worker's key alone opens no dashboard."""
    record = stored.record
    is_admin = Scope.ADMIN in record.scopes
    if stored.is_over or not (is_admin or Scope.READ in record.scopes):
        return None
    return Visitor(record.requester_id, record.prefix, is_admin, form_token(token))


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def form_token(token: str) -> str:
    return hmac.digest(token.encode(), b"a form of the dashboard", "sha256").hex()


def cookie_of(request: Request) -> str | None:
    match = _COOKIE.search((request.header(b"cookie") or b"").decode("latin-1"))
    return match[1] if match else None


def set_cookie(request: Request, token: str, lasts_s: int | None = LIFETIME_S) -> Header:
    """Without `lasts_s` it ends with the browser."""
    parts = [f"{COOKIE}={token}", "Path=/", "HttpOnly", "SameSite=Strict"]
    if lasts_s is not None:
        parts.append(f"Max-Age={lasts_s}")
    if request.came_by_tls:
        parts.append("Secure")
    return (b"set-cookie", "; ".join(parts).encode())


def is_own_form(request: Request, said: str | None) -> bool:
    """Whether a form came from a page of ours that this very browser was shown."""
    token = cookie_of(request)
    site = request.header(b"sec-fetch-site")
    if token is None or said is None or site not in (None, b"same-origin", b"none"):
        return False
    return hmac.compare_digest(form_token(token).encode(), said.encode())
