"""Requesters and the keys that speak for them: made once, shown once, stored as a hash.

A key is `prefix.secret`. The prefix finds the row; the secret has 256 random bits, so a plain SHA-256 of it is as
good as a slow hash would be, and comparing digests in constant time tells an attacker nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.model.submission import LOCAL_REQUESTER, LONGEST_US
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, Row, one

PREFIX_MARK: Final = "ek_"
_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_KEY: Final = re.compile(r"(ek_[a-z0-9]{8})\.([A-Za-z0-9_-]{43})", re.ASCII)
_REQUESTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


class Scope(StrEnum):
    """What a key may do. `admin` includes submit and read, for every requester; `worker` stands apart."""

    SUBMIT = "submit"
    READ = "read"
    WORKER = "worker"
    ADMIN = "admin"


ALL_SCOPES: Final = tuple(Scope)


class UnknownKey(EuterpeError, LookupError):
    """There is no key with this prefix, or it is over."""


class KeyRecord(msgspec.Struct, frozen=True):
    """All that is known of a key besides its secret."""

    prefix: str
    requester_id: str
    scopes: tuple[Scope, ...]
    created_at: int
    expires_at: int | None
    revoked_at: int | None


class StoredKey(msgspec.Struct, frozen=True):
    """A key's record with what proves it, and the database's time when it was read."""

    record: KeyRecord
    secret_hash: bytes
    read_at: int

    def opens_with(self, secret: str) -> bool:
        """Whether this is its secret. Takes the same time whatever is wrong with it."""
        return hmac.compare_digest(hash_secret(secret), self.secret_hash)

    @property
    def is_over(self) -> bool:
        record = self.record
        return record.revoked_at is not None or (record.expires_at is not None and record.expires_at <= self.read_at)


class CreatedKey(NamedTuple):
    """A new key, shown this once. Whoever makes the requester's webhook secret puts it beside the key."""

    key: str
    record: KeyRecord
    webhook_secret: str | None = None


def split_key(key: str) -> tuple[str, str] | None:
    """(prefix, secret), or None for anything that cannot be a key."""
    match = _KEY.fullmatch(key)
    return (match[1], match[2]) if match else None


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def parse_scopes(scopes: Iterable[str]) -> tuple[Scope, ...]:
    """In the order of `Scope`, each once; InvalidInput names what is none."""
    wanted = {str(scope).strip().lower() for scope in scopes}
    unknown = sorted(wanted - set(Scope))
    if unknown or not wanted:
        said = f"{unknown[0]!r} is not one of" if unknown else "name at least one of"
        raise InvalidInput("scope", f"{said} {', '.join(Scope)}")
    return tuple(scope for scope in Scope if scope in wanted)


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
