"""What keeps a database user from working, found out before any job is touched."""

from __future__ import annotations

from euterpe.stores.sql.program import Program, one


def lacking_rights() -> Program[list[str]]:
    """Rights that this user lacks, in words; none if it may work."""
    rows = yield one("lacking_rights")
    return [row[0] for row in rows]
