"""Requesters and the keys that speak for them: made once, shown once, stored as a hash.

A key is `prefix.secret`. The prefix finds the row; the secret has 256 random bits, so a plain SHA-256 of it is as
good as a slow hash would be, and comparing digests in constant time tells an attacker nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Final

from euterpe.model.accounts import (
    ALL_SCOPES,
    PREFIX_MARK,
    CreatedKey,
    KeyRecord,
    Scope,
    StoredKey,
    UnknownKey,
    hash_secret,
    parse_scopes,
)
from euterpe.model.duration import LONGEST_US
from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, Row, one

_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_REQUESTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


class ApiKeys:
    """The keys of one database. Expiry is decided by the database's clock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create_key(self, requester: str, scopes: Iterable[str], expires_in_us: int | None = None) -> CreatedKey:
        """A key for this requester, who is made known if new."""
        check_requester(requester)
        granted = parse_scopes(scopes)
        if expires_in_us is not None and not 0 < expires_in_us <= LONGEST_US:
            raise InvalidInput("expires", "must be longer than nothing and at most ten years")
        key, prefix, secret = new_key()
        record = await self._engine.write(
            lambda: create_key(requester, granted, prefix, hash_secret(secret), expires_in_us)
        )
        return CreatedKey(key, record)

    async def ensure_first_key(self, requester: str = LOCAL_REQUESTER) -> CreatedKey | None:
        """The embedded default's key with every scope, made when no key exists yet; None ever after."""
        check_requester(requester)
        key, prefix, secret = new_key()
        record = await self._engine.write(lambda: first_key(requester, prefix, hash_secret(secret)))
        return None if record is None else CreatedKey(key, record)

    async def rotate_key(self, prefix: str, grace_us: int = 0) -> CreatedKey:
        """A new key like this one, which ends after the grace time. Both work meanwhile."""
        if not 0 <= grace_us <= LONGEST_US:
            raise InvalidInput("grace", "must be between nothing and ten years")
        key, new_prefix, secret = new_key()
        record = await self._engine.write(lambda: rotate_key(prefix, grace_us, new_prefix, hash_secret(secret)))
        return CreatedKey(key, record)

    async def revoke_key(self, prefix: str) -> KeyRecord:
        """Ends the key. API processes that know it already let it in for a few seconds more (see server/auth.py)."""
        return await self._engine.write(lambda: revoke_key(prefix))

    async def list_keys(self, requester: str | None = None) -> list[KeyRecord]:
        return await self._engine.read(lambda: list_keys(requester))

    async def find(self, prefix: str) -> StoredKey | None:
        return await self._engine.read(lambda: find_key(prefix))


def check_requester(requester: str) -> None:
    if not _REQUESTER.fullmatch(requester):
        raise InvalidInput("requester", f"{requester[:100]!r} must be letters, digits, dots, dashes or underscores")


def new_key() -> tuple[str, str, str]:
    """(key, prefix, secret)."""
    prefix = PREFIX_MARK + "".join(secrets.choice(_ALPHABET) for _ in range(8))
    secret = secrets.token_urlsafe(32)
    return f"{prefix}.{secret}", prefix, secret


def create_key(
    requester: str, scopes: tuple[Scope, ...], prefix: str, secret_hash: bytes, lifetime_us: int | None
) -> Program[KeyRecord]:
    yield one("insert_requester", id=requester)
    return (yield from _insert(requester, ",".join(scopes), prefix, secret_hash, lifetime_us))


def first_key(requester: str, prefix: str, secret_hash: bytes) -> Program[KeyRecord | None]:
    # The requester's row comes first: of several processes that start at once, only one inserts it.
    new = yield one("insert_requester", id=requester)
    if not new or (yield one("any_api_key")):
        return None
    return (yield from _insert(requester, ",".join(ALL_SCOPES), prefix, secret_hash, None))


def rotate_key(prefix: str, grace_us: int, new_prefix: str, secret_hash: bytes) -> Program[KeyRecord]:
    before = yield one("get_api_key", prefix=prefix)
    retired = yield one("retire_api_key", prefix=prefix, grace_us=grace_us)
    if not before or not retired:
        raise UnknownKey(f"no living key has the prefix {prefix}; `keys list` shows them")
    old = record_from(before[0])
    # The successor lives as long as its predecessor was meant to.
    lifetime_us = None if old.expires_at is None else old.expires_at - old.created_at
    return (yield from _insert(old.requester_id, ",".join(old.scopes), new_prefix, secret_hash, lifetime_us))


def revoke_key(prefix: str) -> Program[KeyRecord]:
    rows = yield one("revoke_api_key", prefix=prefix)
    if not rows:
        raise UnknownKey(f"no key has the prefix {prefix}; `keys list` shows them")
    return record_from(rows[0])


def list_keys(requester: str | None) -> Program[list[KeyRecord]]:
    rows = yield one("list_api_keys", requester_id=requester)
    return [record_from(row) for row in rows]


def find_key(prefix: str) -> Program[StoredKey | None]:
    rows = yield one("get_api_key", prefix=prefix)
    if not rows:
        return None
    *_, secret_hash, now = rows[0]
    return StoredKey(record_from(rows[0]), bytes(secret_hash), now)


def record_from(row: Row) -> KeyRecord:
    """The first columns of a row are `api_key_columns.sql`."""
    prefix, requester_id, scopes, created_at, expires_at, revoked_at = list(row)[:6]
    return KeyRecord(prefix, requester_id, tuple(map(Scope, scopes.split(","))), created_at, expires_at, revoked_at)


def _insert(
    requester: str, scopes: str, prefix: str, secret_hash: bytes, lifetime_us: int | None
) -> Program[KeyRecord]:
    rows = yield one(
        "insert_api_key",
        prefix=prefix,
        requester_id=requester,
        secret_hash=secret_hash,
        scopes=scopes,
        lifetime_us=lifetime_us,
    )
    return record_from(rows[0])
