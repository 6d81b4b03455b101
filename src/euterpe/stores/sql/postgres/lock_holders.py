"""Name the session that holds a lock: on our tables, or before a statement of ours that waits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from euterpe.model.diagnosis.facts import LockHolder
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.statements import table_names

LATE_S: Final = 1.0
TABLE_LOCK_US: Final = 2_000_000
"""A migration holds a table for less. A lock of a transaction that is older makes a process not ready."""
SHOWN: Final = 80
LITERALS: Final = re.compile(r"'|\$|--|/\*")
NUMBER: Final = re.compile(r"\b\d[\d.]*")


def lock_holders(schema: str | None, pid: int | None = None, *, everyone: bool = False) -> Program[list[LockHolder]]:
    """Holders of whole tables, and the sessions that the backend `pid` waits for; with `everyone`, also those that any
    other session on our tables waits for."""
    rows = yield one(
        "diagnosis/lock_holders",
        schema=schema,
        names=list(table_names()),
        pid=pid or 0,
        everyone=everyone,
        late_s=LATE_S,
    )
    return [_holder(row) for row in rows]


def _holder(row: Row) -> LockHolder:
    pid, table, application, state, query, age_us = row
    return LockHolder(pid, table or "", application, state, first_words(query), age_us)


def first_words(query: str) -> str:
    """The beginning of a query, up to its first literal or comment: what follows may be a secret."""
    cut = LITERALS.search(query)
    words = NUMBER.sub("?", " ".join(query[: cut.start() if cut else None].split()))
    return words if cut is None and len(words) <= SHOWN else f"{words[:SHOWN]} ..."


def lasting(holders: Sequence[LockHolder]) -> LockHolder | None:
    """The oldest that has locked a whole table for long enough to matter."""
    return next((h for h in holders if h.table and (h.age_us is None or h.age_us >= TABLE_LOCK_US)), None)
