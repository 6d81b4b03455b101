"""Requesters' API keys and webhook secrets, as they are known to those who use them."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from euterpe.model.errors import EuterpeError, InvalidInput

PREFIX_MARK: Final = "ek_"


_KEY: Final = re.compile(r"(ek_[a-z0-9]{8})\.([A-Za-z0-9_-]{43})", re.ASCII)


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
        problem = f"{unknown[0]!r} is not one of" if unknown else "name at least one of"
        raise InvalidInput("scope", f"{problem} {', '.join(Scope)}")
    return tuple(scope for scope in Scope if scope in wanted)


class UnknownSecret(EuterpeError, LookupError):
    """There is no webhook secret with this id."""


class SecretRecord(msgspec.Struct, frozen=True):
    """What may be shown of a secret."""

    id: str
    requester_id: str
    kek_id: str
    created_at: int
    retired_at: int | None
