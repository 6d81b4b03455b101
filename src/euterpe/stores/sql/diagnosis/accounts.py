"""Facts of API keys and of sealed secrets."""

from __future__ import annotations

from euterpe.model.diagnosis.facts import KeyFact
from euterpe.stores.sql.program import Program, one


def expiring_keys() -> Program[tuple[KeyFact, ...]]:
    """Keys that are good now, and will not always be."""
    rows = yield one("diagnosis/expiring_keys", limit=100)
    return tuple(KeyFact(*row) for row in rows)


def keks_used() -> Program[dict[str, int]]:
    """How many secrets and storage credentials each key-encryption key wraps."""
    used: dict[str, int] = {}
    for statement in ("sealed_by_kek", "transcode/credentials_by_kek"):
        for kek_id, count in (yield one(statement)):
            used[kek_id] = used.get(kek_id, 0) + count
    return used
