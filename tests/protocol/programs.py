"""The transactions of the line, as generators of steps, like the store's own programs of statements.

    Look     a statement's snapshot: all rows as they are committed, and what this transaction has written itself
    Peek     which runs others hold now, or have taken away
    Hold     lock the newest version of a row: wait for it, or pass it over (SKIP LOCKED). A bounded wait may time out
    Write    the row is held, or new; None deletes it
    Add      a new run
    Commit   and what the caller is answered

Whatever a WHERE or a missing clause could take away is a fact. Facts are read out of the SQL texts (`facts.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, NamedTuple

Key = tuple[str, int]
"""("job", 0), ("run", 3), ("key", 0): the counters of the one key, ("own", 10): job 0 at priority 1 in the
key's own line."""
SKIPPED: Final = "somebody holds it"
TERMINAL: Final = frozenset({"completed", "cancelled", "dead_letter"})
KEY: Final[Key] = ("key", 0)
LIMIT: Final = 1
"""How many jobs of the key may run."""


class Job(NamedTuple):
    priority: int = 1
    keyed: bool = False
    tries: int = 1
    state: str = "scheduled"
    version: int = 0
    releases: int = 0


class Run(NamedTuple):
    first: int
    jobs: int
    priority: int
    keyed: bool = False
    was_longer: bool = False

    @property
    def is_long(self) -> bool:
        return self.jobs > 1 or self.was_longer

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.jobs)


class Counters(NamedTuple):
    running: int = 0
    in_line: int = 0


Value = Job | Run | Counters | int | None
Rows = tuple[tuple[Key, Value], ...]


class Look(NamedTuple):
    pass


class Peek(NamedTuple):
    seen: frozenset[Key]


class Hold(NamedTuple):
    key: Key
    skips: bool = False
    bounded: bool = False


class Write(NamedTuple):
    key: Key
    value: Value


class Add(NamedTuple):
    run: Run


class Commit(NamedTuple):
    """`handed` goes to the worker, `ended` are claims that it need not hold any longer, `accepted` those of them that
    ended their job. `goes_on`: another transaction of the same call follows."""

    handed: tuple[tuple[int, int], ...] = ()
    ended: tuple[tuple[int, int], ...] = ()
    accepted: tuple[tuple[int, int], ...] = ()
    claimed: ClaimedBy | None = None
    goes_on: bool = False


class ClaimedBy(NamedTuple):
    """What a claim saw, for those who check the order."""

    seen: Rows
    skipped: frozenset[Key]
    again: bool
    keeps_order: bool
    in_vain: bool
    """It held a single job and did not take it: meanwhile others took it for taken."""


Step = Look | Peek | Hold | Write | Add | Commit
Program = Generator[Step, Any, Any]
Facts = frozenset[str]


def job(j: int) -> Key:
    return ("job", j)


def own(j: int, priority: int) -> Key:
    return ("own", 10 * priority + j)


def own_line(rows: dict[Key, Any]) -> list[tuple[int, int]]:
    """Priority and job of each in the key's own line, in its order."""
    return sorted(divmod(key[1], 10) for key in rows if key[0] == "own")


# Claim and plain settle: turn.sql.


def turn(facts: Facts, limit: int, settling: tuple[tuple[int, int], ...]) -> Program:
    seen = dict((yield Look()))
    runs = frozenset(key for key in seen if key[0] == "run")
    passed = yield Peek(runs)
    accepted = []
    for j, version in settling:
        row = seen[job(j)]
        if _is_plain_end(facts, row, version):
            row = yield Hold(job(j), bounded=True)
            if _is_plain_end(facts, row, version):
                yield Write(job(j), row._replace(state="completed"))
                accepted.append((j, version))
    if settling:
        passed |= yield Peek(runs)
    region, passed = _region(facts, seen, passed, limit)
    skipped: set[Key] = set(passed)
    held: dict[Key, Run] = {}
    in_vain = False
    bound: int | None = None
    for at, (key, run) in enumerate(region):
        if run.is_long:
            got = yield Hold(key, skips=True)
            if got == run:
                held[key] = got
            else:  # Another claim has it, or has just shortened it.
                bound = at if bound is None else bound
                in_vain = in_vain or (isinstance(got, Run) and not got.is_long)
    is_free = True
    if any(run.keyed for _, run in region):
        is_free = (yield Hold(KEY, skips=True)) != SKIPPED
    ends = len(region) if bound is None or "stops at a held run" not in facts else bound
    held = {key: run for key, run in region[:ends] if key in held}
    for key, run in region[:ends]:
        if run.keyed and not is_free:
            skipped.add(key)
        elif not run.is_long:
            got = yield Hold(key, skips=True)
            if got == SKIPPED:
                skipped.add(key)
            elif got is not None:
                held[key] = got
    in_order = dict(sorted(held.items(), key=lambda item: _place(item[1])))
    is_short = bound is not None or len(held) < len(region)
    in_vain = in_vain or any(
        not run.is_long and before >= limit for before, run in _with_jobs_before(in_order.values())
    )
    yield from _take(
        facts, seen, in_order, limit, skipped, tuple(accepted), settling, is_short=is_short, in_vain=in_vain
    )


def _with_jobs_before(runs: Iterable[Run]) -> Iterator[tuple[int, Run]]:
    before = 0
    for run in runs:
        yield before, run
        before += run.jobs


def _region(
    facts: Facts, seen: dict[Key, Any], held: frozenset[Key], limit: int
) -> tuple[list[tuple[Key, Run]], frozenset[Key]]:
    """The runs that a claim may take, and those among them that it passes over: single jobs that others hold."""
    region: list[tuple[Key, Run]] = []
    passed: set[Key] = set()
    before = 0
    for key, run in _line(seen):
        if before >= limit:
            break
        if key in held and not (run.is_long and "a longer run that is held is not passed over" in facts):
            passed.add(key)
        else:
            region.append((key, run))
            before += run.jobs
    return region, frozenset(passed)


def _take(
    facts: Facts,
    seen: dict[Key, Any],
    held: dict[Key, Run],
    limit: int,
    skipped: set[Key],
    accepted: tuple[tuple[int, int], ...],
    settling: tuple[tuple[int, int], ...],
    *,
    is_short: bool,
    keeps_order: bool = True,
    in_vain: bool = False,
) -> Program:
    parts = []
    before = 0
    for key, run in held.items():
        if (take := min(run.jobs, limit - before)) > 0:
            parts.append((key, run, take))
        before += run.jobs
    numbers = sorted((j, run.priority) for _, run, take in parts for j in run.numbers[:take])
    if "rows are written in the transaction of their run" not in facts:
        yield from _drop(facts, seen, parts)
        yield Commit(goes_on=True)
    taken = []
    for j, priority in numbers:
        if _is_claimable(facts, seen.get(job(j)), priority):
            row = yield Hold(job(j), bounded=True)
            if _is_claimable(facts, row, priority):
                yield Write(job(j), row._replace(state="running", version=row.version + 1))
                taken.append((j, row.version + 1))
    if "rows are written in the transaction of their run" in facts:
        yield from _drop(facts, seen, parts)
    gone = sum(run.keyed for _, run, _ in parts)
    if gone and "a claim counts keys" in facts:
        counters = yield Hold(KEY)
        ran = sum(seen[job(j)].keyed for j, _ in taken)
        yield Write(KEY, Counters(counters.running + ran, counters.in_line - gone))
    lacks = len(taken) < len(numbers) and "asks again after jobs that are gone" in facts
    again = len(taken) < limit and (is_short or lacks)
    claimed = ClaimedBy(tuple(sorted(seen.items())), frozenset(skipped), again, keeps_order, in_vain)
    ended = tuple((j, v) for j, v in settling if not seen[job(j)].keyed)
    yield Commit(handed=tuple(taken), ended=ended, accepted=accepted, claimed=claimed)


def _drop(facts: Facts, seen: dict[Key, Any], parts: list[tuple[Key, Run, int]]) -> Program:
    """By ctid: what another claim has shortened after the snapshot is not found at its new place."""
    for key, run, take in parts:
        if run == seen[key]:
            was_longer = "the last of a longer run is not single" in facts
            rest = run._replace(first=run.first + take, jobs=run.jobs - take, was_longer=was_longer)
            yield Write(key, rest if rest.jobs else None)


def _is_plain_end(facts: Facts, row: Job, version: int) -> bool:
    return (
        (row.version == version or "a plain end asks for the version" not in facts)
        and (row.state == "running" or "a plain end asks for the lease" not in facts)
        and (not row.keyed or "a plain end leaves keys alone" not in facts)
    )


def _is_claimable(facts: Facts, row: Job | None, priority: int) -> bool:
    return (
        row is not None
        and (row.state == "scheduled" or "a claim asks for the state" not in facts)
        and (row.priority == priority or "a claim asks for the priority" not in facts)
    )


def _place(run: Run) -> tuple[int, int]:
    return run.priority, run.first


def _line(seen: dict[Key, Any]) -> list[tuple[Key, Run]]:
    runs = ((key, run) for key, run in seen.items() if key[0] == "run")
    return sorted(runs, key=lambda item: (item[1].priority, item[1].first, item[0]))


def turn_around(facts: Facts, limit: int) -> Program:
    """scatter.sql, then turn_around.sql: past every row that somebody holds."""
    passed: set[Key] = set()
    for key, run in _line(dict((yield Look()))):
        if run.jobs > 1:
            got = yield Hold(key, skips=True)
            if got == SKIPPED:
                passed.add(key)
            elif got == run:
                yield Write(key, None)
                for j in run.numbers:
                    yield Add(Run(j, 1, run.priority))
    seen = dict((yield Look()))
    held: dict[Key, Run] = {}
    skipped: set[Key] = set()
    for key, run in _line(seen):
        if run.jobs == 1 and len(held) < limit:
            got = yield Hold(key, skips=True)
            if got == SKIPPED or got is None or (yield Hold(job(run.first), skips=True)) == SKIPPED:
                skipped.add(key)
            else:
                held[key] = got
    if any(run.keyed for run in held.values()) and (yield Hold(KEY, skips=True)) == SKIPPED:
        skipped |= {key for key, run in held.items() if run.keyed}
        held = {key: run for key, run in held.items() if not run.keyed}
    yield from _take(facts, seen, held, limit, passed | skipped, (), (), is_short=False, keeps_order=False)


# Every other end: settle.sql, and what follows from it.


def settle(facts: Facts, j: int, version: int, how: str) -> Program:
    """`how`: complete, retry or release by a worker; take_away by an operator, who fences the claim off."""
    seen = dict((yield Look()))
    ended = ((j, version),)
    if not _is_current(facts, seen[job(j)], version):
        yield Commit(ended=ended)
        return
    row = yield Hold(job(j), skips=True)
    if row == SKIPPED:
        yield Commit()
        return
    if not _is_current(facts, row, version):
        yield Commit(ended=ended)
        return
    yield from _end(facts, j, row, how)
    yield Commit(ended=ended, accepted=() if how == "take_away" else ended)


def reclaim(facts: Facts, j: int) -> Program:
    """A sweep: expired_leases.sql holds the row, settle.sql ends the attempt."""
    row = dict((yield Look()))[job(j)]
    if row.state != "running":
        yield Commit()
        return
    now = yield Hold(job(j), skips=True)
    if now != SKIPPED and now.state == "running" and now.version == row.version:
        yield from _end(facts, j, now, "retry")
    yield Commit()


def _is_current(facts: Facts, row: Job, version: int) -> bool:
    return (row.version == version or "a settle asks for the version" not in facts) and (
        row.state == "running" or "a settle asks for the lease" not in facts
    )


def _end(facts: Facts, j: int, row: Job, how: str) -> Program:
    after = row._replace(state={"complete": "completed", "take_away": "cancelled"}.get(how, "scheduled"))
    if how == "take_away":
        after = after._replace(version=row.version + 1)
    elif how == "release":
        after = after._replace(releases=row.releases + 1)
    elif how == "retry":
        left = row.tries - 1
        after = after._replace(tries=left, state="scheduled" if left > 0 else "dead_letter")
    yield Write(job(j), after)
    if after.state == "scheduled" and "a settle enters the line" in facts:
        yield from _enter(facts, j, after)
    if row.keyed:
        yield from _admit(facts, freed=1)


def _enter(facts: Facts, j: int, row: Job) -> Program:
    """enter.sql: always a new run."""
    if row.keyed:
        yield Write(own(j, row.priority), row.priority)
        return
    if "every entry is a new run" not in facts:
        runs = _line(dict((yield Look())))
        if any((run.first, run.priority) == (j, row.priority) for _, run in runs):
            return
    yield Add(Run(j, 1, row.priority))


def _admit(facts: Facts, freed: int, left: int | None = None) -> Program:
    """Last in every transaction: hold_keys.sql, recount_line.sql where a job left but not by a claim, admit.sql or
    admit_in_order.sql."""
    counters = yield Hold(KEY)
    counters = counters._replace(running=counters.running - (freed if "an end frees its key" in facts else 0))
    if left is not None:
        seen = dict((yield Look()))
        row = seen[job(left)]
        for priority, j in own_line(seen):
            if j == left and (row.state, row.priority) != ("scheduled", priority):
                yield from _delete(own(j, priority))
        in_line = 0
        for key, run in _line(seen):
            if run.keyed:
                row = seen[job(run.first)]
                is_stray = (row.state, row.priority) != ("scheduled", run.priority)
                if is_stray and "strays of a key are dropped" in facts:
                    yield from _delete(key)
                else:
                    in_line += 1
        counters = counters._replace(in_line=in_line)
    seen = dict((yield Look()))
    for priority, j in own_line(seen):
        if counters.running + counters.in_line < LIMIT or "admission keeps to the limit" not in facts:
            yield from _delete(own(j, priority))
            yield Add(Run(j, 1, priority, keyed=True))
            counters = counters._replace(in_line=counters.in_line + 1)
    yield Write(KEY, counters)


def _delete(key: Key) -> Program:
    if (yield Hold(key)) is not None:
        yield Write(key, None)


# Operators.


def cancel(facts: Facts, j: int) -> Program:
    """get_jobs_for_update.sql, then end_waiting.sql, or settle.sql where the job runs: by force."""
    row = yield Hold(job(j))
    if row.state == "scheduled":
        seen = dict((yield Look()))
        yield Write(job(j), row._replace(state="cancelled"))
        yield from _leave(facts, seen, j, row)
        if row.keyed:
            yield from _admit(facts, freed=0, left=j)
    elif row.state == "running":
        yield from _end(facts, j, row, "take_away")
    yield Commit()


def reprioritise(facts: Facts, j: int, priority: int) -> Program:
    """get_jobs_for_update.sql, update_metadata.sql."""
    row = yield Hold(job(j))
    if row.state == "scheduled" and row.priority != priority:
        seen = dict((yield Look()))
        yield Write(job(j), row._replace(priority=priority))
        yield from _leave(facts, seen, j, row)
        if "a new priority enters the line" in facts:
            yield from _enter(facts, j, row._replace(priority=priority))
        if row.keyed:
            yield from _admit(facts, freed=0, left=j)
    yield Commit()


def _leave(facts: Facts, seen: dict[Key, Any], j: int, row: Job) -> Program:
    """left.sql"""
    if "who leaves takes its own run away" in facts:
        for key, run in _line(seen):
            if run.jobs == 1 and _place(run) == (row.priority, j):
                yield from _delete(key)
    if row.keyed and "who leaves a key's own line holds the key" not in facts:
        yield from _delete(own(j, row.priority))


def submit(facts: Facts, first: int, rows: tuple[Job, ...]) -> Program:
    """insert_uniform.sql: one run of new jobs."""
    for j, row in enumerate(rows, first):
        yield Write(job(j), row)
    if "a submit enters the line" in facts:
        yield Add(Run(first, len(rows), rows[0].priority))
    yield Commit()


PROGRAMS: Final = {
    program.__name__: program for program in (turn, turn_around, settle, reclaim, cancel, reprioritise, submit)
}


def scheduled(rows: dict[Key, Any]) -> Iterator[tuple[int, Job]]:
    return ((key[1], row) for key, row in rows.items() if key[0] == "job" and row.state == "scheduled")
