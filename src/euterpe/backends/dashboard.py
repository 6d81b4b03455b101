"""What a dashboard needs of a database beside the store."""

from __future__ import annotations

from euterpe.backends.database import database_of
from euterpe.ports import DashboardReads, Sessions, Store
from euterpe.stores.sql.dashboard.reads import SqlDashboardReads
from euterpe.stores.sql.dashboard.sessions import SqlSessions


def dashboard_reads(store: Store) -> DashboardReads:
    return SqlDashboardReads(database_of(store))


def sessions(store: Store) -> Sessions:
    return SqlSessions(database_of(store))
