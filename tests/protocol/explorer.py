"""Every order in which the transactions of a scenario can run, step by step, and what must hold after each.

A database of a few rows, each with its committed value and, while a transaction has locked or written it, that
transaction's own. Processes are workers, which may die at any step, a sweeper, and actors that run one program each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple

from tests.protocol.programs import (
    KEY,
    LIMIT,
    PROGRAMS,
    SKIPPED,
    TERMINAL,
    Add,
    Commit,
    Counters,
    Facts,
    Hold,
    Job,
    Key,
    Look,
    Peek,
    Rows,
    Run,
    Step,
    Value,
    Write,
    job,
    own,
    own_line,
    scheduled,
)

Claim = tuple[int, int]
"""A job and a version."""
Call = tuple[Any, ...]
"""The name of a program and its arguments."""
MOST_RUNS: Final = 12


class Scenario(NamedTuple):
    jobs: tuple[Job, ...]
    runs: tuple[tuple[int, int], ...]
    """The first job of each run, and how many it has. Jobs with a key are in the key's own line, but for the first."""
    verbs: frozenset[str] = frozenset()
    """What workers do beside turns: retry, release, settle; around: they claim past held rows; reclaim: leases end."""
    actors: tuple[Call, ...] = ()
    """Programs that run once, whenever it pleases them."""
    workers: int = 2
    limits: tuple[int, ...] = (1, 2)
    """How many jobs a claim may ask for."""
    deaths: int = 0
    at_once: int = 2
    """How many transactions may be open."""


class Process(NamedTuple):
    alive: bool = True
    call: Call | None = None
    answers: tuple[Any, ...] = ()
    holds: frozenset[Claim] = frozenset()
    is_new: bool = True
    """It has not begun anything yet."""


class World(NamedTuple):
    rows: Rows
    """As they are committed, in the order of their keys."""
    locks: tuple[tuple[Key, tuple[int, Value]], ...]
    """Who holds a row, and what it is to that transaction."""
    processes: tuple[Process, ...]
    """The workers, the sweeper, the actors."""


class Broken(Exception):
    """A promise that does not hold."""


class Explorer:
    def __init__(self, scenario: Scenario, facts: Facts) -> None:
        self._scenario = scenario
        self._facts = facts
        self._sweeper = scenario.workers

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
            if _is_done(world):
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
        jobs = self._scenario.jobs
        rows: dict[Key, Value] = {job(j): row for j, row in enumerate(jobs)}
        for n, (first, size) in enumerate(self._scenario.runs):
            rows["run", n] = Run(first, size, jobs[first].priority, jobs[first].keyed)
        if any(row.keyed for row in jobs):
            rows[KEY] = Counters(0, sum(jobs[first].keyed for first, _ in self._scenario.runs))
            in_line = {first for first, _ in self._scenario.runs}
            rows |= {own(j, row.priority): row.priority for j, row in enumerate(jobs) if row.keyed and j not in in_line}
        processes = (Process(),) * (self._scenario.workers + 1 + len(self._scenario.actors))
        return World(tuple(sorted(rows.items())), (), processes)

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
        deaths = sum(not p.alive for p in world.processes)
        for p, process in enumerate(world.processes):
            if not process.alive:
                continue
            if process.call is not None:
                yield from self._step(world, p, process.call, process.answers, blocked)
            elif not is_full:
                for call in self._calls(world, p, process):
                    yield from self._step(world, p, call, (), {})
            if p < self._sweeper and deaths < self._scenario.deaths and (process.call or process.holds):
                yield f"worker {p} dies", _without(world, p, Process(alive=False, is_new=False))
        for p in blocked:
            seen, q = {p}, blocked[p]
            while q in blocked and q not in seen:
                seen.add(q)
                q = blocked[q]
            if q in seen:
                raise Broken("transactions wait for each other")

    def _calls(self, world: World, p: int, process: Process) -> Iterator[Call]:
        rows = dict(world.rows)
        if p < self._sweeper:
            if p and world.processes[p - 1].is_new:
                return  # Workers that are alike begin in the order of their numbers.
            yield from self._calls_of_worker(rows, process)
        elif p == self._sweeper:
            for key, row in rows.items():
                if isinstance(row, Job) and row.state == "running" and self._may_reclaim(world, key[1], row):
                    yield ("reclaim", key[1])
        elif process.is_new:
            yield self._scenario.actors[p - self._sweeper - 1]

    def _may_reclaim(self, world: World, j: int, row: Job) -> bool:
        """A lease ends when its worker is lost; one that sleeps may come back later."""
        is_held = any((j, row.version) in p.holds or p.call for p in world.processes[: self._sweeper])
        return "reclaim" in self._scenario.verbs or not is_held

    def _calls_of_worker(self, rows: dict[Key, Any], process: Process) -> Iterator[Call]:
        verbs, ending = self._scenario.verbs, tuple(sorted(process.holds))
        is_waiting = any(key[0] == "run" for key in rows)
        if is_waiting:
            for limit in self._scenario.limits:
                yield ("turn", limit, ending)
                if "around" in verbs:
                    yield ("turn_around", limit)
        elif ending:
            yield ("turn", 0, ending)
        for j, version in ending:
            if rows[job(j)].keyed or "settle" in verbs:
                yield ("settle", j, version, "complete")
            if "retry" in verbs:
                yield ("settle", j, version, "retry")
            if "release" in verbs and not rows[job(j)].releases:
                yield ("settle", j, version, "release")

    def _step(
        self, world: World, p: int, call: Call, answers: tuple[Any, ...], blocked: dict[int, int]
    ) -> Iterator[tuple[str, World]]:
        step = next_step(self._facts, call, answers)
        process = world.processes[p]._replace(call=call, answers=answers, is_new=False)
        if isinstance(step, Commit):
            yield f"{p}:{call[0]} commits", self._commit(world, p, process, step)
            return
        locks = dict(world.locks)
        if isinstance(step, Hold) and (lock := locks.get(step.key)) and lock[0] != p and not step.skips:
            if step.bounded:
                given_up = process._replace(call=None, answers=())
                yield f"{p}:{call[0]} gives up waiting", _without(world, p, given_up)
            else:
                blocked[p] = lock[0]
            return
        answer = _answer(world, p, step, locks)
        answers = (*answers, answer)
        told = process._replace(answers=answers)
        name = f"{p}:{call[0]}{call[1:]} {step}"
        after = World(world.rows, tuple(sorted(locks.items())), _with(world.processes, p, told))
        if _is_private(after, p, next_step(self._facts, call, answers)):
            # Nobody else could see or hinder it, so it need not be a step of its own.
            for _, later in self._step(after, p, call, answers, {}):
                yield name, later
        else:
            yield name, after

    # What must hold.

    def _commit(self, world: World, p: int, process: Process, done: Commit) -> World:
        old: dict[Key, Any] = dict(world.rows)
        new = dict(old)
        for key, (owner, value) in world.locks:
            if owner == p:
                new.pop(key, None)
                if value is not None:
                    new[key] = value
        for j, version in done.handed:
            if old[job(j)].state != "scheduled":
                raise Broken(f"job {j} was {old[job(j)].state}, and was handed out")
            if version != old[job(j)].version + 1:
                raise Broken(f"job {j} was handed out under a version that it had")
        for j, version in done.accepted:
            if (old[job(j)].state, old[job(j)].version) != ("running", version):
                raise Broken(f"a claim of job {j} that was over has ended it")
        for key, row in new.items():
            if isinstance(row, Job) and old.get(key, row) != row and old[key].state in TERMINAL:
                raise Broken(f"job {key[1]} had ended, and was written again")
        if done.claimed is not None:
            _check_claim(new, done)
        holds = (process.holds | set(done.handed)) - set(done.ended)
        if done.goes_on:
            told = process._replace(answers=(*process.answers, None), holds=holds)
        else:
            told = process._replace(call=None, answers=(), holds=holds)
        after = _without(world, p, told)._replace(rows=tuple(sorted(new.items())))
        _check_rows(new)
        if not after.locks and not any(process.call for process in after.processes):
            _check_at_rest(new)
        return after


def _check_rows(rows: dict[Key, Any]) -> None:
    """After every commit."""
    runs = [row for row in rows.values() if isinstance(row, Run)]
    for j, row in scheduled(rows):
        places = sum(j in run.numbers and run.priority == row.priority for run in runs) + (own(j, row.priority) in rows)
        if places == 0:
            raise Broken(f"job {j} is ready, and in no line")
        if row.keyed and places > 1:
            raise Broken(f"job {j} is in {places} places")
    running = sum(isinstance(row, Job) and row.keyed and row.state == "running" for row in rows.values())
    if running > LIMIT:
        raise Broken(f"{running} jobs of the key run")


def _check_at_rest(rows: dict[Key, Any]) -> None:
    """When no transaction is open."""
    for key, run in rows.items():
        # A job without a key may leave a run behind, which the next claim drops; one with a key would keep a place.
        if isinstance(run, Run) and run.keyed:
            row = rows[job(run.first)]
            if (row.state, row.priority) != ("scheduled", run.priority):
                raise Broken(f"run {key[1]} is of job {run.first}, which is {row.state} at {row.priority}")
    for priority, j in own_line(rows):
        if (rows[job(j)].state, rows[job(j)].priority) != ("scheduled", priority):
            raise Broken(f"job {j} is in the key's own line, and not scheduled there")
    if KEY in rows:
        running = sum(isinstance(row, Job) and row.keyed and row.state == "running" for row in rows.values())
        in_line = sum(isinstance(row, Run) and row.keyed for row in rows.values())
        if rows[KEY] != (running, in_line):
            raise Broken(f"the counters say {tuple(rows[KEY])}, and {(running, in_line)} is so")
        if own_line(rows) and running + in_line < LIMIT:
            raise Broken("the key has a place, and lets nobody in")


def _check_claim(rows: dict[Key, Any], done: Commit) -> None:
    """By priority, then by the first number of the run; what another claim takes in that moment is passed over."""
    assert done.claimed is not None
    seen: dict[Key, Any] = dict(done.claimed.seen)
    left: list[tuple[tuple[int, int, int], bool]] = []
    places: dict[int, tuple[int, int, int]] = {}
    for key, run in seen.items():
        if isinstance(run, Run):
            for j in run.numbers:
                row = seen[job(j)]
                if (row.state, row.priority) == ("scheduled", run.priority):
                    places[j] = min(places.get(j, (9, 9, 9)), (run.priority, run.first, j))
                    if rows[job(j)] == row:
                        left.append(((run.priority, run.first, j), run.jobs > 1 or key not in done.claimed.skipped))
    free = sorted(place for place, is_free in left if is_free)
    last = max((places[j] for j, _ in done.handed if j in places), default=None)
    if done.claimed.keeps_order and last is not None and free and free[0] < last:
        raise Broken(f"job {free[0][2]} was ready, and {last[2]} was taken before it")
    if done.claimed.keeps_order and done.claimed.in_vain:
        raise Broken("a claim held a single job, and did not take it")
    skips = any(not is_free for _, is_free in left) or done.claimed.skipped
    if not done.handed and free and not done.claimed.again and not skips:
        raise Broken(f"a claim came back empty, and job {free[0][2]} was ready")


@lru_cache(maxsize=1_000_000)
def next_step(facts: Facts, call: Call, answers: tuple[Any, ...]) -> Step:
    """Where a program stands, given what it was answered so far."""
    program = PROGRAMS[call[0]](facts, *call[1:])
    step: Step = next(program)
    for answer in answers:
        step = program.send(answer)
    return step


def _answer(world: World, p: int, step: Step, locks: dict[Key, tuple[int, Value]]) -> Any:
    """What the step is answered; it changes `locks`."""
    match step:
        case Look():
            own = {key: value for key, (owner, value) in locks.items() if owner == p}
            return tuple(sorted((k, v) for k, v in (dict(world.rows) | own).items() if v is not None))
        case Peek(seen):
            rows = dict(world.rows)
            others = {key for key, (owner, _) in locks.items() if owner != p}
            return frozenset(key for key in seen if key in others or key not in rows)
        case Hold(key):
            owner, value = locks.get(key, (p, dict(world.rows).get(key)))
            if owner != p:
                return SKIPPED
            if value is not None:
                locks[key] = (p, value)
            return value
        case Write(key, value):
            locks[key] = (p, value)
        case Add(run):
            locks["run", _new_number(world, locks)] = (p, run)
    return None


def _new_number(world: World, locks: dict[Key, Any]) -> int:
    """One that nobody has, nor has in its snapshot: a deleted run must not be taken for a new one."""
    taken = {key for key, _ in world.rows} | set(locks)
    for process in world.processes:
        for answer in process.answers:
            if isinstance(answer, tuple) and answer and isinstance(answer[0], tuple):
                taken |= {entry[0] for entry in answer}
    number = next(n for n in count() if ("run", n) not in taken)
    assert number < MOST_RUNS, "runs pile up"
    return number


def _is_private(world: World, p: int, step: Step) -> bool:
    """A lock or write of a row that this transaction holds, a row that is new, a commit of nothing."""
    locks = dict(world.locks)
    match step:
        case Add() | Write():
            return True
        case Hold(key):
            return key in locks and locks[key][0] == p
        case Commit():
            return not any(owner == p for owner, _ in locks.values())
    return False


def _without(world: World, p: int, process: Process) -> World:
    """Its transaction is over: nothing is locked any more."""
    locks = tuple(item for item in world.locks if item[1][0] != p)
    return world._replace(locks=locks, processes=_with(world.processes, p, process))


def _is_done(world: World) -> bool:
    return not world.locks and all(row.state in TERMINAL for _, row in world.rows if isinstance(row, Job))


def _with(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


def _way(came_from: list[tuple[int, str]], n: int) -> str:
    steps: list[str] = []
    while n > 0:
        n, step = came_from[n]
        steps.append(step)
    return " > ".join(reversed(steps))
