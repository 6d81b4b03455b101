"""Checks at a worker's start that its database user has every right that it needs."""

from __future__ import annotations

from typing import Final

from euterpe.model.errors import SchemaMismatch, StoreUnavailable
from euterpe.ports import Store
from euterpe.stores.sql.maintenance.rights import lacking_rights
from euterpe.stores.sql.migrations import no_rights
from euterpe.stores.sql.store import SqlStore

NAMED: Final = 2


async def check_rights(store: Store) -> StoreUnavailable | None:
    """Raises SchemaMismatch, which names what to grant. Returns what kept the database from answering: an outage says
    nothing of rights, and ends no process. A control plane has checked its own."""
    if not isinstance(store, SqlStore):
        return None
    try:
        lacking = await store.engine.read(lacking_rights)
    except SchemaMismatch:
        raise
    except StoreUnavailable as error:
        return error
    if lacking:
        more = f" and on {len(lacking) - NAMED} more tables" if len(lacking) > NAMED else ""
        raise no_rights("Postgres", "; ".join(lacking[:NAMED]) + more)
    return None
