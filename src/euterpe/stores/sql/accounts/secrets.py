"""Webhook secrets: sealed in the database, opened only to sign. Two may be active while one is rotated.

The older of the two comes first, because it is the one that every receiver knows: a receiver that has not yet heard
of the new secret keeps verifying, and one that has may check either signature.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from euterpe.crypto import Keyring, SealContext, Sealed, SealingKeys, rewrap, seal, unseal
from euterpe.model.accounts import SecretRecord, UnknownSecret
from euterpe.model.duration import LONGEST_US
from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, Row, one

ACTIVE_LIMIT: Final = 2
REWRAP_BATCH: Final = 100


class SealedSecret(msgspec.Struct, frozen=True):
    """A row of `webhook_secrets`, in the order of `webhook_secret_columns.sql`."""

    id: str
    requester_id: str
    encrypted: bytes
    dek_wrapped: bytes
    kek_id: str
    encryption_version: int
    created_at: int
    retired_at: int | None

    @property
    def record(self) -> SecretRecord:
        return SecretRecord(self.id, self.requester_id, self.kek_id, self.created_at, self.retired_at)

    @property
    def sealed(self) -> Sealed:
        return Sealed(bytes(self.encrypted), bytes(self.dek_wrapped), self.kek_id, self.encryption_version)


class WebhookSecrets:
    """The secrets of one database under one keyring."""

    def __init__(self, engine: Engine, keyring: SealingKeys) -> None:
        self._engine = engine
        self._keyring = keyring

    async def create(self, requester: str, secret: str) -> SecretRecord | None:
        """Store this as the requester's first secret; None (and nothing stored) when it has one already."""
        return await self._engine.write(lambda: create_secret(requester, secret, self._keyring))

    async def active(self, requester: str) -> tuple[str, ...]:
        """The secrets to sign with, the older first; empty when the requester has none.

        Raises MissingKek (worth a retry) or SealBroken (an operator must look)."""
        rows = await self._engine.read(lambda: active_secrets(requester))
        return tuple(unseal(row.sealed, _context(requester, row.id), self._keyring).decode() for row in rows)

    async def rotate(self, requester: str, secret: str, grace_us: int | None = None) -> SecretRecord:
        """Add a secret beside the present one, which signs on until it is retired, or for the grace time."""
        if grace_us is not None and not 0 <= grace_us <= LONGEST_US:
            raise InvalidInput("grace", "must be between nothing and ten years")
        return await self._engine.write(lambda: rotate_secret(requester, secret, self._keyring, grace_us))

    async def retire(self, secret_id: str) -> SecretRecord:
        """This secret signs no more, from now on."""
        return await self._engine.write(lambda: retire_secret(secret_id))

    async def list_secrets(self, requester: str | None = None) -> list[tuple[SecretRecord, bool]]:
        """Every secret with whether it signs at this moment, oldest first."""
        return await self._engine.read(lambda: list_secrets(requester))

    async def count_by_kek(self) -> dict[str, int]:
        """How many secrets each key-encryption key wraps."""
        return await self._engine.read(count_by_kek)

    async def rewrap_all(self, keyring: Keyring) -> int:
        """Wrap every secret by the active key; returns how many changed. Safe beside others and to repeat."""
        changed, after = 0, ""
        while True:
            rows = await self._engine.read(partial(secrets_to_rewrap, keyring.active_kek_id, after))
            if not rows:
                return changed
            fresh = [(row, rewrap(row.sealed, _context(row.requester_id, row.id), keyring)) for row in rows]
            changed += await self._engine.write(partial(store_wraps, fresh))
            after = rows[-1].id


def create_secret(requester: str, secret: str, keyring: SealingKeys) -> Program[SecretRecord | None]:
    """The first secret of a requester, who is made known if new."""
    yield one("insert_requester", id=requester)
    yield one("hold_requester", id=requester)
    if (yield from active_secrets(requester)):
        return None
    return (yield from _insert(requester, secret, keyring))


def rotate_secret(requester: str, secret: str, keyring: SealingKeys, grace_us: int | None) -> Program[SecretRecord]:
    yield one("insert_requester", id=requester)
    yield one("hold_requester", id=requester)
    present = yield from active_secrets(requester)
    if len(present) >= ACTIVE_LIMIT:
        raise InvalidInput(
            "requester", f"{requester} has two active secrets; retire {present[0].id} first, the older one"
        )
    for row in present:
        if grace_us is not None:
            yield one("retire_webhook_secret", id=row.id, grace_us=grace_us)
    return (yield from _insert(requester, secret, keyring))


def retire_secret(secret_id: str) -> Program[SecretRecord]:
    rows = yield one("retire_webhook_secret", id=secret_id, grace_us=0)
    if not rows:
        raise UnknownSecret(f"no webhook secret has the id {secret_id}; `keys secrets list` shows them")
    return SealedSecret(*rows[0]).record


def active_secrets(requester: str) -> Program[list[SealedSecret]]:
    rows: list[Row] = yield one("active_webhook_secrets", requester_id=requester)
    return [SealedSecret(*row) for row in rows][-ACTIVE_LIMIT:]


def list_secrets(requester: str | None) -> Program[list[tuple[SecretRecord, bool]]]:
    rows = yield one("list_webhook_secrets", requester_id=requester)
    listed = []
    for row in rows:
        *columns, now = row
        record = SealedSecret(*columns).record
        listed.append((record, record.retired_at is None or record.retired_at > now))
    return listed


def count_by_kek() -> Program[dict[str, int]]:
    rows = yield one("sealed_by_kek")
    return {row[0]: row[1] for row in rows}


def secrets_to_rewrap(active: str, after: str) -> Program[list[SealedSecret]]:
    rows = yield one("secrets_to_rewrap", active=active, after=after, limit=REWRAP_BATCH)
    return [SealedSecret(*row) for row in rows]


def store_wraps(fresh: Sequence[tuple[SealedSecret, Sealed]]) -> Program[int]:
    changed = 0
    for row, sealed in fresh:
        stored = yield one(
            "rewrap_secret", id=row.id, dek_wrapped=sealed.dek_wrapped, kek_id=sealed.kek_id, old_kek_id=row.kek_id
        )
        changed += len(stored)
    return changed


def _insert(requester: str, secret: str, keyring: SealingKeys) -> Program[SecretRecord]:
    secret_id = f"ws_{uuid.uuid4().hex[:16]}"
    sealed = seal(secret.encode(), _context(requester, secret_id), keyring)
    rows = yield one(
        "insert_webhook_secret",
        id=secret_id,
        requester_id=requester,
        encrypted=sealed.encrypted,
        dek_wrapped=sealed.dek_wrapped,
        kek_id=sealed.kek_id,
        encryption_version=sealed.encryption_version,
    )
    return SealedSecret(*rows[0]).record


def _context(requester: str, secret_id: str) -> SealContext:
    return SealContext("webhook-secret", (requester, secret_id))
