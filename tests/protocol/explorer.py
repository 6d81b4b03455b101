"""Every order in which the transactions of a scenario can run, statement by statement, and what must hold after each.

A database of seven rows, each with its committed value and, while a transaction has written or locked it, that
transaction's own. Processes are workers, which may die at any statement, a sweeper, and actors that run one program
each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from tests.protocol.programs import PROGRAMS, WORKERS, Commit, Insert, Key, Look, Skip, Statement, Update
from tests.protocol.rows import CHANGES, EMPTY, TERMINAL, Job, Jobs, Value

KEYS: Final[tuple[Key, ...]] = (
    ("job", 0),
    ("job", 1),
    ("chunk", 0),
    ("chunk", 1),
    ("receipt", 0),
    ("receipt", 1),
    ("receipt", 2),
)
AT: Final = {key: i for i, key in enumerate(KEYS)}
JOBS: Final = (0, 1)
Claim = tuple[int, int]
"""A job and a version."""
Call = tuple[Any, ...]
"""The name of a program and its arguments."""


class Scenario(NamedTuple):
    chunk_of: tuple[int, ...]
    """Which chunk each job was submitted in."""
    verbs: frozenset[str]
    """What workers do beside claiming and completing: fail, release, heartbeat; full: the third claims
    in full; lost answer: a commit need not be heard of."""
    actors: tuple[Call, ...]
    """Programs that run once, whenever it pleases them."""
    workers: int = 2
    """How many claim by receipts."""
    deaths: int = 1
    at_once: int = 2
    """How many transactions may be open."""


class Process(NamedTuple):
    alive: bool = True
    call: Call | None = None
    answers: tuple[Any, ...] = ()
    holds: frozenset[Claim] = frozenset()
    is_new: bool = True
    """It has not begun anything yet."""
    unsettled: Jobs | None = None
    """Of its receipt: the jobs that are not known to be settled or on their rows."""


class World(NamedTuple):
    rows: tuple[Value, ...]
    locks: tuple[tuple[int, Value] | None, ...]
    processes: tuple[Process, ...]
    """The workers, the sweeper, the actors."""
    handed: frozenset[Claim] = frozenset()
    over: frozenset[Claim] = frozenset()


class Broken(Exception):
    """A promise that does not hold."""


class Explorer:
    def __init__(self, scenario: Scenario, flaws: frozenset[str] = frozenset()) -> None:
        self._scenario = scenario
        self._flaws = flaws
        self._sweeper = len(WORKERS)

    def run(self) -> int:
        """How many worlds there are. Broken, with the way that leads there, if one of them breaks a promise."""
        start = self._start()
        numbers = {start: 0}
        came_from: list[tuple[int, str]] = [(-1, "start")]
        before: list[list[int]] = [[]]
        finished: list[int] = []
        waiting = deque([start])
        while waiting:
            world = waiting.popleft()
            n = numbers[world]
            if self._is_done(world):
                finished.append(n)
            try:
                for step, after in self._steps(world):
                    m = numbers.get(after)
                    if m is None:
                        m = numbers[after] = len(numbers)
                        came_from.append((n, step))
                        before.append([])
                        waiting.append(after)
                    before[m].append(n)
            except Broken as broken:
                raise Broken(f"{broken}; after {_way(came_from, n)}") from None
        self._all_can_end(finished, before, came_from)
        return len(numbers)

    def _start(self) -> World:
        members = [frozenset(j for j in JOBS if self._scenario.chunk_of[j] == c) for c in (0, 1)]
        # One try for the second: what a retry can do, the first one shows, and the worlds would be ten times as many.
        rows: tuple[Value, ...] = (Job(), Job(max_attempts=1), *members, EMPTY, EMPTY, EMPTY)
        processes = (Process(),) * (len(WORKERS) + 1 + len(self._scenario.actors))
        return World(rows, (None,) * len(KEYS), processes)

    def _is_done(self, world: World) -> bool:
        ended = all(isinstance(row, Job) and row.state in TERMINAL for row in world.rows[:2])
        return ended and not any(world.rows[2:]) and not any(world.locks)

    def _all_can_end(self, finished: list[int], before: list[list[int]], came_from: list[tuple[int, str]]) -> None:
        good = set(finished)
        waiting = list(finished)
        while waiting:
            for n in before[waiting.pop()]:
                if n not in good:
                    good.add(n)
                    waiting.append(n)
        if len(good) < len(before):
            lost = next(n for n in range(len(before)) if n not in good)
            raise Broken(f"the jobs cannot all end any more; after {_way(came_from, lost)}")

    # What may happen next.

    def _steps(self, world: World) -> Iterator[tuple[str, World]]:
        blocked: dict[int, int] = {}
        is_full = sum(p.call is not None for p in world.processes) >= self._scenario.at_once
        deaths = sum(not p.alive for p in world.processes[: len(WORKERS)])
        for p, process in enumerate(world.processes):
            if not process.alive:
                continue
            if process.call is not None:
                yield from self._step(world, p, process.call, process.answers, blocked)
            elif not is_full:
                for call in self._calls(world, p, process):
                    yield from self._step(world, p, call, (), {})
            if p < len(WORKERS) - 1 and deaths < self._scenario.deaths and (process.call or process.holds):
                yield f"worker {p} dies", self._without(world, p, Process(alive=False, is_new=False))
        for p in blocked:
            seen, q = {p}, blocked[p]
            while q in blocked and q not in seen:
                seen.add(q)
                q = blocked[q]
            if q in seen:
                raise Broken("transactions wait for each other")

    def _calls(self, world: World, p: int, process: Process) -> Iterator[Call]:
        if p < len(WORKERS):
            yield from self._calls_of_worker(world, p, process)
        elif p == self._sweeper:
            for w in WORKERS:
                if world.rows[AT["receipt", w]]:
                    yield ("sweep_receipt", w)
            for j in JOBS:
                row = world.rows[j]
                assert isinstance(row, Job)
                if row.state == "running":
                    yield ("reclaim", j, "fail")
                    if row.worker is not None and not world.processes[row.worker].alive and not row.releases:
                        yield ("reclaim", j, "release")
        elif process.is_new:
            yield self._scenario.actors[p - self._sweeper - 1]

    def _calls_of_worker(self, world: World, w: int, process: Process) -> Iterator[Call]:
        chunk_of, verbs = self._scenario.chunk_of, self._scenario.verbs
        in_full = "full" in verbs and w == WORKERS[-1]
        if w >= self._scenario.workers and not in_full:
            return
        if w and not in_full and world.processes[w - 1].is_new:
            return  # workers that are alike begin in the order of their numbers
        for c in set(chunk_of):
            for limit in range(1, chunk_of.count(c) + 1):
                if in_full:
                    yield ("claim_in_full", w, c, limit)
                elif process.unsettled is None and not world.rows[AT["receipt", w]]:
                    yield ("claim_by_receipt", w, c, limit, chunk_of)
        for j in JOBS:
            row = world.rows[j]
            assert isinstance(row, Job)
            if not row.chunked and row.state == "scheduled":
                yield ("claim_row", w, j)
        for j, version in process.holds:
            if version == 1:
                yield ("settle_plain", j)
            yield ("settle_in_full", j, version, "complete", chunk_of)
            row = world.rows[j]
            assert isinstance(row, Job)
            if "fail" in verbs:
                yield ("settle_in_full", j, version, "fail", chunk_of)
            if "release" in verbs and not row.releases:
                yield ("settle_in_full", j, version, "release", chunk_of)
            if "heartbeat" in verbs:
                yield ("heartbeat", j, version, chunk_of)
        if process.unsettled == EMPTY or (process.unsettled and "receipt_dropped_early" in self._flaws):
            yield ("drop_receipt", w)

    def _step(
        self, world: World, p: int, call: Call, answers: tuple[Any, ...], blocked: dict[int, int]
    ) -> Iterator[tuple[str, World]]:
        statement = next_statement(self._flaws, call, answers)
        process = world.processes[p]._replace(call=call, answers=answers, is_new=False)
        if isinstance(statement, Commit):
            after = self._commit(world, p, process, statement)
            yield f"{p}:{call[0]} commits", after
            if "lost answer" in self._scenario.verbs and p < len(WORKERS):
                untold = process._replace(call=None, answers=())
                yield f"{p}:{call[0]} commits unheard", after._replace(processes=_with(after.processes, p, untold))
            return
        if isinstance(statement, Look):
            answer: Any = tuple(_seen(world, p, AT[key]) for key in statement.keys)
            rows, locks = world.rows, world.locks
        else:
            at = AT[statement.key]
            lock = world.locks[at]
            if lock is not None and lock[0] != p and not isinstance(statement, Skip):
                blocked[p] = lock[0]
                return
            answer, locks = self._write(world, p, at, statement)
            rows = world.rows
        answers = (*answers, answer)
        told = process._replace(answers=answers)
        name = f"{p}:{call[0]}{call[1:]} {statement}"
        after = world._replace(rows=rows, locks=locks, processes=_with(world.processes, p, told))
        if self._is_private(after, p, next_statement(self._flaws, call, answers)):
            # Nobody else could see or hinder it, so it need not be a step of its own.
            for _, later in self._step(after, p, call, answers, {}):
                yield name, later
        else:
            yield name, after

    def _is_private(self, world: World, p: int, statement: Statement) -> bool:
        """A read or write of rows that this transaction holds, a row that is new, a commit of nothing."""
        match statement:
            case Insert():
                return True
            case Commit():
                return not any(lock is not None and lock[0] == p for lock in world.locks)
            case Look(keys):
                held = [world.locks[AT[key]] for key in keys]
                return all(lock is not None and lock[0] == p for lock in held)
            case _:
                lock = world.locks[AT[statement.key]]
                return lock is not None and lock[0] == p

    def _write(self, world: World, p: int, at: int, statement: Update | Skip | Insert) -> tuple[Any, tuple[Any, ...]]:
        lock = world.locks[at]
        if isinstance(statement, Insert):
            return None, _with(world.locks, at, (p, statement.members))
        old = _seen(world, p, at)
        if (lock is not None and lock[0] != p) or old == EMPTY:
            return None, world.locks
        new = CHANGES[statement.change](old, *statement.params, self._flaws)
        if new is None:
            return None, world.locks
        return (old, new), _with(world.locks, at, (p, new))

    def _without(self, world: World, p: int, process: Process) -> World:
        """Its transaction is rolled back."""
        locks = tuple(None if lock is not None and lock[0] == p else lock for lock in world.locks)
        return world._replace(locks=locks, processes=_with(world.processes, p, process))

    # What must hold.

    def _commit(self, world: World, p: int, process: Process, done: Commit) -> World:
        rows = tuple(
            row if lock is None or lock[0] != p else lock[1] for row, lock in zip(world.rows, world.locks, strict=True)
        )
        twice = [claim for claim in done.handed if claim in world.handed]
        if twice:
            raise Broken(f"handed out twice: {twice}")
        late = [claim for claim in done.accepted if claim in world.over]
        if late:
            raise Broken(f"a claim that was over has ended its job: {late}")
        if done.missed is not None:
            raise Broken(f"job {done.missed} lives, and could not be acted on")
        holds = (process.holds | set(done.handed)) - set(done.done)
        unsettled = process.unsettled
        if unsettled is not None:
            unsettled -= {j for j, _ in done.done}
        if done.by_receipt:
            unsettled = done.by_receipt
        assert process.call is not None
        if process.call[0] == "drop_receipt" and not rows[AT["receipt", p]]:
            unsettled = None
        told = process._replace(call=None, answers=(), holds=holds, unsettled=unsettled)
        after = self._without(world, p, told)._replace(
            rows=rows, handed=world.handed | set(done.handed), over=world.over | set(done.over)
        )
        self._check(world, after, done)
        return after

    def _check(self, world: World, after: World, done: Commit) -> None:
        receipts = [after.rows[AT["receipt", w]] for w in WORKERS]
        for j in JOBS:
            old, row = world.rows[j], after.rows[j]
            assert isinstance(old, Job)
            assert isinstance(row, Job)
            if old.state in TERMINAL and row != old:
                raise Broken(f"job {j} had ended {old.state}, and was written again")
            chunk = after.rows[AT["chunk", self._scenario.chunk_of[j]]]
            places = sum(isinstance(r, frozenset) and j in r for r in (chunk, *receipts))
            is_waiting = isinstance(chunk, frozenset) and j in chunk
            if row.is_plain and places != 1:
                raise Broken(f"job {j} is in {places} places")
            if is_waiting and not row.is_plain:
                raise Broken(f"job {j} is {row.state}, and still waits in a chunk")
            if row.state == "running" and (j, row.version) in after.over:
                raise Broken(f"job {j} runs under a claim that is over")
            charged = sum(claim[0] == j for claim in after.handed) - row.releases
            if row.attempts > row.max_attempts or (not row.is_plain and row.attempts != charged):
                raise Broken(f"job {j} was charged {row.attempts} attempts, and had {charged}")
            if row.state in TERMINAL and row.has_dependents and not row.dependents_told:
                raise Broken(f"job {j} ended, and nobody told its dependents")
            is_current = row.version if row.state == "running" else 1 if row.is_plain and not is_waiting else None
            if (j, is_current) in done.refused:
                raise Broken(f"job {j}: the claim that holds it was called stale")


@cache
def next_statement(flaws: frozenset[str], call: Call, answers: tuple[Any, ...]) -> Statement:
    """Where a program stands, given what it was answered so far."""
    program = PROGRAMS[call[0]](flaws, *call[1:])
    statement = next(program)
    for answer in answers:
        statement = program.send(answer)
    return statement


def _seen(world: World, p: int, at: int) -> Value:
    lock = world.locks[at]
    return lock[1] if lock is not None and lock[0] == p else world.rows[at]


def _with(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


def _way(came_from: list[tuple[int, str]], n: int) -> str:
    steps: list[str] = []
    while n > 0:
        n, step = came_from[n]
        steps.append(step)
    return " > ".join(reversed(steps))
