"""Plain jobs of chunks and receipts become ordinary rows before any statement but a plain settle comes to them (ADR 017).

One prologue for all programs: it stands between a program and its driver, and sees each statement by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from euterpe.stores.sql.program import Each, One, Program, Row, Statement, one

T = TypeVar("T")
HOLDS: Final = frozenset({"get_jobs_for_update", "await_rows", "end_waiting", "hold_claim"})
"""Converted before: they look at rows in order to act on them."""
FENCED: Final = frozenset({"settle", "settle_completed", "heartbeat", "advance"})
"""Converted when a row does not answer: it may be that its claim is on a receipt."""
CLAIMS: Final = frozenset({"claim", "claim_for"})
SWEPT: Final = {"expired_leases": None, "claims_of_worker": "worker_id", "running_over_lifetime": None}
SWEPT_AT_ONCE: Final = 100
WATCHED: Final = HOLDS | FENCED | CLAIMS | SWEPT.keys()


class NeedsTransaction(Exception):
    """A program of one statement meets plain jobs."""


def converted(program: Program[T], *, in_transaction: bool = True) -> Program[T]:
    """The same program; what its statements are about to touch is converted first."""
    statement = next(program)
    while True:
        try:
            if statement.name in WATCHED:
                rows = yield from _watched(statement, in_transaction=in_transaction)
            else:
                rows = yield statement
            statement = program.send(rows)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration carries Any


def _watched(statement: Statement, *, in_transaction: bool) -> Program[list[Row]]:
    name = statement.name
    if name in CLAIMS and isinstance(statement, One):
        yield from _bring_front(statement, in_transaction=in_transaction)
    elif name in SWEPT and isinstance(statement, One):
        by = SWEPT[name]
        yield one("sweep_receipts", receipts=None, worker_id=None if by is None else statement.params[by], limit=SWEPT_AT_ONCE)
    elif name in HOLDS:
        yield from _convert(_ids(statement), in_transaction=in_transaction)
    rows = yield statement
    if name in FENCED and len(rows) < len(_ids(statement)):
        if (yield from _convert(_ids(statement), in_transaction=in_transaction)):
            rows = [*rows, *(yield statement)]
    return rows


def _bring_front(statement: One, *, in_transaction: bool) -> Program[None]:
    p = statement.params
    if not (yield one("has_chunks", queue=p["queue"])):
        return
    if not in_transaction:
        raise NeedsTransaction
    limit = p["limit"] + p["prefetch"] if statement.name == "claim" else len(p["worker_ids"])
    yield one("unchunk_front", queue=p["queue"], types=p["types"], limit=limit)


def _ids(statement: Statement) -> Sequence[str]:
    if isinstance(statement, Each):
        return statement.columns["id"]
    return statement.params["ids"] if "ids" in statement.params else [statement.params["id"]]


def _convert(ids: Sequence[str], *, in_transaction: bool) -> Program[bool]:
    found = yield one("plain_of", ids=list(ids))
    if not found:
        return False
    if not in_transaction:
        raise NeedsTransaction
    plain = sorted(row[0] for row in found)
    yield one("await_rows", ids=plain)
    yield one("lock_chunks", ids=plain)
    yield one("unchunk", ids=plain)
    yield one("materialise", ids=plain)
    return True
