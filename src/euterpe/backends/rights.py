"""Checks at a worker's start that its database user has every right that it needs."""

from __future__ import annotations

from typing import Final

from euterpe.ports import Store
from euterpe.stores.sql.maintenance.rights import lacking_rights
from euterpe.stores.sql.migrations import no_rights
from euterpe.stores.sql.store import SqlStore

NAMED: Final = 2


async def check_rights(store: Store) -> None:
    """Raises SchemaMismatch, which names what to grant. A control plane has checked its own."""
    if not isinstance(store, SqlStore):
        return
    lacking = await store.engine.read(lacking_rights)
    if lacking:
        more = f" and on {len(lacking) - NAMED} more tables" if len(lacking) > NAMED else ""
        raise no_rights("Postgres", "; ".join(lacking[:NAMED]) + more)
