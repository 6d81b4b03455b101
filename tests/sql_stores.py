"""For tests that look behind the port."""

from __future__ import annotations

from euterpe.ports import Store
from euterpe.stores.sql.store import SqlStore


def sql(store: Store) -> SqlStore:
    """The SQL store that a queue or a backend of the test is known to have."""
    assert isinstance(store, SqlStore)
    return store
