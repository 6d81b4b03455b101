"""The database behind a store, for rooms that keep tables of their own in it."""

from __future__ import annotations

from euterpe.model.errors import Unsupported
from euterpe.ports import Store
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.store import SqlStore


def database_of(store: Store) -> Engine:
    """Raises Unsupported for a control plane, whose tables are out of reach, and for Redis lists, which have none."""
    if not isinstance(store, SqlStore):
        raise no_database()
    return store.engine


def no_database() -> Unsupported:
    return Unsupported(
        "this needs the SQL database itself: --engine or ENGINE_URL names it, as in postgresql://user@host/name; "
        "a control plane (http://) keeps it on its own side, and Redis lists have none"
    )
