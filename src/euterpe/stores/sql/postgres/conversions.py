"""Plain jobs of chunks and receipts become ordinary rows before a statement acts on them (ADR 017).

One prologue for all programs: it stands between a program and its driver, and knows each statement by its name. Only
the claim and the completion of plain jobs (`exchange_chunks`), claims onto rows (`claim_chunks`) and reads (`jobs_now`)
know of chunks and receipts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from euterpe.stores.sql.exchange.receipts import SWEPT_AT_ONCE, put_on_rows
from euterpe.stores.sql.program import Each, One, Program, Row, Statement, each, one

T = TypeVar("T")
HOLDING: Final = frozenset({"get_jobs_for_update", "await_rows", "end_waiting"})
"""They come for rows in order to act on them: these are converted before, and waited for."""
FENCED: Final = frozenset({"settle", "settle_completed", "heartbeat"})
"""They pass over rows that somebody holds. If one does not answer, its claim may be on a receipt: it is converted."""
FENCED_AND_WAITING: Final = frozenset({"hold_claim", "hold_claim_by_token", "advance"})
"""They wait for rows that somebody holds: no answer means that the claim is stale."""
BY_TOKEN: Final = frozenset({"heartbeat_by_token"})
"""It passes over rows that somebody holds, too. Only a token that its receipt knows converts a job."""
SWEEPS: Final = {"expired_leases": None, "claims_of_worker": "worker_id"}
"""They look for claims on rows. Receipts that ran out, or those of the worker that is asked for, go there before."""
BY_LIFETIME: Final = "over_lifetime"
WATCHED: Final = HOLDING | FENCED | FENCED_AND_WAITING | SWEEPS.keys() | BY_TOKEN | {BY_LIFETIME}
FIRST_CLAIM: Final = 1
"""The version of every claim on a receipt."""


class NeedsTransaction(Exception):
    """A program of one statement meets plain jobs: it has to run again, in a transaction."""


def converted(program: Program[T], *, in_transaction: bool = True) -> Program[T]:
    """The same program; what its statements are about to touch is converted first."""
    rows: list[Row] | None = None
    while True:
        try:
            statement = next(program) if rows is None else program.send(rows)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        if statement.name in WATCHED:
            rows = yield from _watched(statement, in_transaction=in_transaction)
        else:
            rows = yield statement


def _watched(statement: Statement, *, in_transaction: bool) -> Program[list[Row]]:
    name = statement.name
    if name in HOLDING:
        yield from _convert(_ids(statement), in_transaction=in_transaction)
    elif name in SWEEPS and isinstance(statement, One):
        by = SWEEPS[name]
        yield from put_on_rows(worker_id=None if by is None else statement.params[by], limit=SWEPT_AT_ONCE)
    rows = yield statement
    if name == BY_LIFETIME:
        if rows and (yield from _convert([row[1] for row in rows], in_transaction=in_transaction)):
            # What was running is among those that `running_over_lifetime` finds.
            rows = yield statement
    elif name in BY_TOKEN and isinstance(statement, Each):
        rows = [*rows, *(yield from _renew_on_receipts(statement, rows, in_transaction=in_transaction))]
    elif name in FENCED or name in FENCED_AND_WAITING:
        missing = _first_claims_without_answer(statement, rows)
        if missing:
            rows = [*rows, *(yield from _again(statement, missing, in_transaction=in_transaction))]
    return rows


def _again(statement: Statement, missing: Sequence[str], *, in_transaction: bool) -> Program[list[Row]]:
    """What did not answer, once its claim is on its row."""
    found = yield one("plain_of", ids=list(missing))
    if not found:
        return []
    plain = [row[0] for row in found if row[1]]
    if plain:
        if not in_transaction:
            raise NeedsTransaction
        if statement.name in FENCED_AND_WAITING:
            yield one("await_rows", ids=sorted(plain))
            yield from _convert_held(plain)
        else:
            yield from _convert_held([row[0] for row in (yield one("hold_plain", ids=plain))])
    rows: list[Row] = yield _only(statement, {row[0] for row in found})
    if statement.name == "heartbeat" and plain:
        answered = {row[0] for row in rows}
        if held := [job_id for job_id in plain if job_id not in answered]:
            # Somebody holds their rows, and is perhaps converting them: their leases are as they were.
            leases = yield one("check_leases", ids=held)
            rows = [*rows, *((*row, False) for row in leases if row[1] == FIRST_CLAIM)]
    return rows


def _renew_on_receipts(statement: Each, rows: Sequence[Row], *, in_transaction: bool) -> Program[list[Row]]:
    """Leases that did not answer, and that a receipt has: they are renewed on their rows."""
    answered = {row[0] for row in rows}
    pairs = zip(statement.columns["id"], statement.columns["token_hash"], strict=True)
    missing = [(job_id, token_hash) for job_id, token_hash in pairs if job_id not in answered]
    if not missing:
        return []
    ids, token_hashes = zip(*missing, strict=True)
    known = yield each("receipt_by_token", id=list(ids), token_hash=list(token_hashes))
    if not known:
        return []
    if not in_transaction:
        raise NeedsTransaction
    yield from _convert_held([row[0] for row in (yield one("hold_plain", ids=[row[0] for row in known]))])
    renewed: list[Row] = yield _only(statement, {row[0] for row in known})
    answered = {row[0] for row in renewed}
    # Of the others somebody holds the rows, and is perhaps converting them: their leases are as they were.
    return [*renewed, *(row for row in known if row[0] not in answered)]


def _convert(ids: Sequence[str], *, in_transaction: bool) -> Program[bool]:
    """Whether any of them was plain. They are waited for, in the order of ids."""
    found = yield one("plain_of", ids=list(ids))
    plain = sorted(row[0] for row in found if row[1])
    if not plain:
        return False
    if not in_transaction:
        raise NeedsTransaction
    yield one("await_rows", ids=plain)
    yield from _convert_held(plain)
    return True


def _convert_held(ids: Sequence[str]) -> Program[None]:
    """What runs needs no look at its chunk. What is neither under a receipt nor in its chunk was claimed in between: it
    is under a receipt by the time of the last statement."""
    if not ids:
        return
    running = {row[0] for row in (yield one("materialise", ids=list(ids)))}
    waiting = [job_id for job_id in ids if job_id not in running]
    if waiting:
        yield one("lock_chunks", ids=waiting)
        yield one("unchunk", ids=waiting)
        yield one("materialise", ids=waiting)


def _ids(statement: Statement) -> Sequence[str]:
    if isinstance(statement, Each):
        return statement.columns["id"]
    ids: Sequence[str] = statement.params["ids"]
    return ids


def _first_claims_without_answer(statement: Statement, rows: Sequence[Row]) -> list[str]:
    if isinstance(statement, One):
        claims = [(statement.params["id"], statement.params["claim_version"])]
    elif len(rows) < len(statement):
        claims = list(zip(statement.columns["id"], statement.columns["claim_version"], strict=True))
    else:
        return []
    # Every fenced statement answers with the id first, but those that answer with whole jobs.
    place = 1 if statement.name in FENCED_AND_WAITING else 0
    answered = {row[place] for row in rows}
    return [job_id for job_id, version in claims if version == FIRST_CLAIM and job_id not in answered]


def _only(statement: Statement, ids: set[str]) -> Statement:
    if isinstance(statement, One):
        return statement
    kept = [i for i, job_id in enumerate(statement.columns["id"]) if job_id in ids]
    return Each(statement.name, {name: [values[i] for i in kept] for name, values in statement.columns.items()})
