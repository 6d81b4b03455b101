"""The transactions of the receipt protocol (ADR 017), as generators of statements, like the store's own programs.

    Look       read rows as they are committed: a statement's snapshot, or a read without locks
    Update     wait for the lock of one row, look at its newest version again (READ COMMITTED), write
    Skip       the same, but a locked row is passed over (SKIP LOCKED)
    Insert     a receipt
    Commit     and what the caller is answered

An Update or Skip is answered with (the row before, the row after), or None where it wrote nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from tests.protocol.rows import EMPTY, Job, Jobs

Key = tuple[str, int]
"""("job", 0), ("chunk", 1), ("receipt", 2): the receipt of worker 2."""
WORKERS: Final = (0, 1, 2)


class Look(NamedTuple):
    keys: tuple[Key, ...]


class Update(NamedTuple):
    key: Key
    change: str
    params: tuple[Any, ...] = ()


class Skip(NamedTuple):
    key: Key
    change: str
    params: tuple[Any, ...] = ()


class Insert(NamedTuple):
    key: Key
    members: Jobs


class Commit(NamedTuple):
    """`handed` goes to the worker; `over` are claims that are current no more; `refused` are claims that were told so;
    `done` are jobs that their receipt need not cover any longer."""

    handed: tuple[tuple[int, int], ...] = ()
    by_receipt: Jobs = EMPTY
    over: tuple[tuple[int, int], ...] = ()
    refused: tuple[tuple[int, int], ...] = ()
    done: tuple[tuple[int, int], ...] = ()
    accepted: tuple[tuple[int, int], ...] = ()
    missed: int | None = None
    """A job that lived, and that this program could not act on."""


Statement = Look | Update | Skip | Insert | Commit
Program = Generator[Statement, Any, None]
Flaws = frozenset[str]


def job(j: int) -> Key:
    return ("job", j)


def chunk(c: int) -> Key:
    return ("chunk", c)


def receipt(w: int) -> Key:
    return ("receipt", w)


def claim_by_receipt(flaws: Flaws, w: int, c: int, limit: int, chunk_of: tuple[int, ...]) -> Program:
    """ready_claim.sql: cut a piece off a chunk, insert one receipt, read the jobs."""
    mine = tuple(j for j, of in enumerate(chunk_of) if of == c)
    seen = yield Look((chunk(c), *map(job, mine)))
    if not seen[0]:
        yield Commit()
        return
    keeps = "piece_stays_in_its_chunk" in flaws
    got = yield Skip(chunk(c), "hold") if keeps else Skip(chunk(c), "take", (limit,))
    if got is None:
        yield Commit()
        return
    piece = frozenset(sorted(got[0])[:limit]) if keeps else got[0] - got[1]
    if "hands_out_its_snapshot" in flaws:
        piece = frozenset(sorted(seen[0])[:limit])
    yield Insert(receipt(w), piece)
    rows: dict[int, Job] = dict(zip(mine, seen[1:], strict=True))
    yield Commit(handed=tuple((j, 1) for j in sorted(piece) if rows[j].is_plain), by_receipt=piece)


def claim_in_full(flaws: Flaws, w: int, c: int, limit: int) -> Program:
    """claim.sql: jobs of a chunk straight onto their rows. A row that somebody holds stays in the chunk."""
    got = yield Skip(chunk(c), "hold")
    taken: list[int] = []
    for j in sorted(got[0]) if got else ():
        if len(taken) < limit and (yield Skip(job(j), "claim_chunked", (w,))):
            taken.append(j)
    if taken and "full_claim_leaves_the_chunk" not in flaws:
        yield Update(chunk(c), "remove", (frozenset(taken),))
    yield Commit(handed=tuple((j, 1) for j in taken))


def claim_row(flaws: Flaws, w: int, j: int) -> Program:
    """claim.sql: what is in the claim index."""
    del flaws
    got = yield Skip(job(j), "claim_row", (w,))
    yield Commit(handed=((j, got[1].version),) if got else ())


def settle_plain(flaws: Flaws, j: int) -> Program:
    """exchange.sql: what it does not match goes the full path."""
    del flaws
    got = yield Update(job(j), "complete_plain")
    yield Commit(accepted=((j, 1),), done=((j, 1),), over=((j, 1),)) if got else Commit()


def settle_in_full(flaws: Flaws, j: int, version: int, how: str, chunk_of: tuple[int, ...]) -> Program:
    """A worker's report: completed, failed or given back."""
    yield from convert(flaws, (j,), chunk_of)
    got = yield Update(job(j), "settle", (version, how))
    claim = ((j, version),)
    if got:
        yield Commit(accepted=claim, over=claim, done=claim)
    else:
        yield Commit(refused=claim, done=claim)


def convert(
    flaws: Flaws, jobs: tuple[int, ...], chunk_of: tuple[int, ...]
) -> Generator[Statement, Any, dict[int, Job]]:
    """The prologue of every program that does more to a job than complete it plainly: hold the rows in the order of
    ids, take what waits out of its chunk, write the claims of the others onto their rows. Returns the rows as they are
    then."""
    early = (yield Look(tuple(map(receipt, WORKERS)))) if "convert_looks_once" in flaws else None
    rows: dict[int, Job] = {}
    for j in jobs:
        (_, rows[j]) = yield Update(job(j), "hold")
    for j in jobs:
        if rows[j].is_plain:
            yield from _convert_one(flaws, j, chunk_of[j], early)
    found = yield Look(tuple(map(job, jobs)))
    return dict(zip(jobs, found, strict=True))


def _convert_one(flaws: Flaws, j: int, c: int, early: tuple[Jobs, ...] | None) -> Program:
    out: Any = None
    if "convert_takes_nothing_out" in flaws:
        out = True
    elif "convert_passes_over_a_locked_chunk" in flaws:
        out = yield Skip(chunk(c), "remove", (frozenset({j}),))
    else:
        out = yield Update(chunk(c), "remove", (frozenset({j}),))
    if out:
        yield Update(job(j), "unchunk")
        return
    # A statement of its own: its snapshot is younger than the claim that took the job out of the chunk.
    receipts = early or (yield Look(tuple(map(receipt, WORKERS))))
    for w in WORKERS:
        if j in receipts[w]:
            yield Update(job(j), "materialise", (w,))
            return


def heartbeat(flaws: Flaws, j: int, version: int, chunk_of: tuple[int, ...]) -> Program:
    """Also progress, a stage, a checkpoint, a spawn: whatever a worker asks of a claim that goes on."""
    rows = yield from convert(flaws, (j,), chunk_of)
    alive = rows[j].state == "running" and rows[j].version == version
    yield Commit(refused=() if alive else ((j, version),), done=((j, version),))


def drop_receipt(flaws: Flaws, w: int) -> Program:
    """The worker's next exchange, once it knows that all jobs of its receipt are settled or on their rows."""
    del flaws
    yield Skip(receipt(w), "delete")
    yield Commit()


def sweep_receipt(flaws: Flaws, w: int) -> Program:
    """An expired receipt, or one of a worker that is lost: its claims go onto the rows, which `reclaim` then finds."""
    got = yield Skip(receipt(w), "delete")
    if got is None:
        yield Commit()
        return
    if "sweep_forgets_the_rows" not in flaws:
        for j in sorted(got[0]):
            yield Update(job(j), "materialise", (w,))
    yield Commit()


def reclaim(flaws: Flaws, j: int, how: str) -> Program:
    """A lost lease is a retry; what a dead worker had not begun is released by the keeper."""
    del flaws
    (row,) = yield Look((job(j),))
    if row.state != "running":
        yield Commit()
        return
    got = yield Skip(job(j), "settle", (row.version, how))
    yield Commit(over=((j, row.version),) if got else ())


def cancel(flaws: Flaws, jobs: tuple[int, ...], force: bool, chunk_of: tuple[int, ...]) -> Program:
    """Of one job, or of several in one transaction."""
    if "cancel_without_converting" in flaws:
        rows = {}
        for j in jobs:
            (_, rows[j]) = yield Update(job(j), "hold")
    else:
        order = jobs if "convert_in_any_order" not in flaws else jobs[::-1]
        rows = yield from convert(flaws, order, chunk_of)
    over: list[tuple[int, int]] = []
    missed = None
    for j in jobs:
        row = rows[j]
        done: Any = True
        if row.state == "scheduled":
            done = None if row.chunked and "cancel_without_converting" not in flaws else True
            done = done and (yield Update(job(j), "end_waiting", ("cancelled", row.version)))
        elif row.state == "running" and force:
            done = yield Update(job(j), "take_away", ("cancelled", row.version))
            over.append((j, row.version))
        elif row.state == "running":
            done = yield Update(job(j), "ask_cancel", (row.version,))
        missed = j if done is None else missed
    yield Commit(over=tuple(over), missed=missed)


def end_lifetime(flaws: Flaws, j: int, chunk_of: tuple[int, ...]) -> Program:
    rows = yield from convert(flaws, (j,), chunk_of)
    row = rows[j]
    done: Any = True
    over: tuple[tuple[int, int], ...] = ()
    if row.state == "scheduled":
        done = None if row.chunked else (yield Update(job(j), "end_waiting", ("dead_letter", row.version)))
    elif row.state == "running":
        done = yield Update(job(j), "take_away", ("dead_letter", row.version))
        over = ((j, row.version),)
    yield Commit(over=over, missed=j if done is None else None)


def add_dependent(flaws: Flaws, j: int, chunk_of: tuple[int, ...]) -> Program:
    """A submit that depends on this job: the end of it must look for dependents from now on."""
    if "dependents_without_converting" not in flaws:
        yield from convert(flaws, (j,), chunk_of)
    yield Update(job(j), "mark_dependents")
    yield Commit()


PROGRAMS: Final = {
    program.__name__: program
    for program in (
        claim_by_receipt,
        claim_in_full,
        claim_row,
        settle_plain,
        settle_in_full,
        heartbeat,
        drop_receipt,
        sweep_receipt,
        reclaim,
        cancel,
        end_lifetime,
        add_dependent,
    )
}
