"""Sign-ins: only the hash of a cookie is stored, and the key behind it is read anew each time."""

from __future__ import annotations

from typing import Final

from euterpe.model.accounts import StoredKey
from euterpe.stores.sql.accounts.keys import record_from
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one

SESSIONS_OF_A_KEY: Final = 20
"""A further sign-in ends the oldest session of the key."""


class SqlSessions:
    """The sessions of one database. Its clock says when one is over."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def begin(self, token_hash: bytes, key_prefix: str, lifetime_us: int) -> None:
        await self._engine.write(lambda: begin(token_hash, key_prefix, lifetime_us))

    async def find(self, token_hash: bytes) -> StoredKey | None:
        return await self._engine.read(lambda: find(token_hash))

    async def end(self, token_hash: bytes) -> None:
        await self._engine.write(lambda: end(token_hash))


def begin(token_hash: bytes, key_prefix: str, lifetime_us: int) -> Program[None]:
    yield one("dashboard/delete_over_sessions")
    yield one("dashboard/insert_session", token_hash=token_hash, key_prefix=key_prefix, lifetime_us=lifetime_us)
    yield one("dashboard/delete_surplus_sessions", key_prefix=key_prefix, keep=SESSIONS_OF_A_KEY)


def find(token_hash: bytes) -> Program[StoredKey | None]:
    rows = yield one("dashboard/find_session", token_hash=token_hash)
    if not rows:
        return None
    *_, secret_hash, now = rows[0]
    return StoredKey(record_from(rows[0]), bytes(secret_hash), now)


def end(token_hash: bytes) -> Program[None]:
    yield one("dashboard/delete_session", token_hash=token_hash)
