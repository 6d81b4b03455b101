"""The database behind a store, for rooms that keep tables of their own in it."""

from __future__ import annotations

from euterpe.model.errors import Unsupported
from euterpe.ports import Store
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.store import SqlStore


def database_of(store: Store) -> Engine:
    """Raises Unsupported for a control plane, whose tables are out of reach, and for Redis lists, which have none."""
    if not isinstance(store, SqlStore):
        raise Unsupported(
            "this needs a SQL database; a control plane over HTTP keeps it on its own side, and Redis lists have none"
        )
    return store.engine
