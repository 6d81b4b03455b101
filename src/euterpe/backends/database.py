"""The database behind a store, for rooms that keep tables of their own in it."""

from __future__ import annotations

from euterpe.model.errors import Unsupported
from euterpe.ports import Store
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.store import SqlStore


def database_of(store: Store) -> Engine:
    """Raises Unsupported for a control plane: its tables are out of reach, and managed where they are."""
    if not isinstance(store, SqlStore):
        raise Unsupported("this needs the database itself, and the queue is a control plane over HTTP; run it there")
    return store.engine
