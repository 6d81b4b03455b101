"""Counts and logs jobs that ended without a report: lost workers, lifetimes, spent budgets, operators, dependencies.

A worker's process counts and logs the attempts that it reports. Everything else that ends a job happens inside some
transaction of the store, so the rows of that transaction are read on their way, and reported once it is committed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, TypeVar

import msgspec

from euterpe.model.state import State
from euterpe.ports import Telemetry
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Each, MakeProgram, Program, Row, Statement
from euterpe.stores.sql.statements import Contract, Ends, Family, text_of

T = TypeVar("T")
log = logging.getLogger("euterpe.store")

LINES_AT_ONCE: Final = 20
"""Of a thousand jobs that end together, so many get a line of their own; the rest is a number."""
ENDS: Final = frozenset({State.FAILED, State.DEAD_LETTER, State.CANCELLED, State.RETRYING})
_STATES: Final = {str(state): state for state in ENDS}


class EndedBy(Enum):
    """Who ends jobs in a transaction."""

    SWEEP = "sweep"
    OPERATOR = "operator"
    WORKER = "worker"
    """Its own attempts are told by whoever took its report; only the dependents that end with them are told here."""


class EndedJob(msgspec.Struct, frozen=True, gc=False):
    """A job that ended, or lost an attempt, without a worker's report."""

    job_id: str
    queue: str
    type: str
    state: State
    category: str = "other"
    code: str = "error"
    had_failed: bool = False
    """Whether it had ended before, as failed, and was only moved to the dead letter now."""
    claim_version: int = 0
    """Of the claim that ended with it; 0: it was never claimed."""


class _Error(msgspec.Struct):
    category: str = "other"
    code: str = "error"


_read_error: Final = msgspec.json.Decoder(_Error).decode


class EndReporter:
    """Runs programs, and tells metrics and log what ended in them, once that is committed."""

    def __init__(self, engine: Engine, telemetry: Callable[[], Telemetry | None] = lambda: None) -> None:
        self._engine = engine
        self._telemetry = telemetry

    async def write(self, make: MakeProgram[T], by: EndedBy, *, patience_s: float = 0, is_small: bool = False) -> T:
        """`Engine.write`, told."""
        result, ended_jobs = await self.write_quietly(make, by, patience_s=patience_s, is_small=is_small)
        log_ended(ended_jobs, by)
        return result

    async def write_quietly(
        self, make: MakeProgram[T], by: EndedBy, *, patience_s: float = 0, is_small: bool = False
    ) -> tuple[T, list[EndedJob]]:
        """Counted, and returned for a line in the log."""
        result, ended_jobs = await self._engine.write(
            lambda: collect_ended(make(), by, self._engine.family), patience_s=patience_s, is_small=is_small
        )
        self.count(ended_jobs)
        return result, ended_jobs

    def count(self, ended_jobs: Sequence[EndedJob]) -> None:
        telemetry = self._telemetry()
        if telemetry is None or not ended_jobs:
            return
        counted = Counter((e.queue, e.state, e.category, e.had_failed) for e in ended_jobs)
        for (queue, state, category, had_failed), count in counted.items():
            if had_failed:
                telemetry.dead_lettered(queue, count)
            else:
                telemetry.settled(queue, state, count, (), category)


def collect_ended(program: Program[T], by: EndedBy, family: Family) -> Program[tuple[T, list[EndedJob]]]:
    """The same program; its result, and what ended in it."""
    ended_jobs: list[EndedJob] = []
    watched: tuple[Ends, ...] = ("dependents",) if by is EndedBy.WORKER else ("dependents", "jobs", "failed jobs")
    try:
        statement = next(program)
        while True:
            rows = yield statement
            if rows and (contract := text_of(family, statement.name).contract).ends in watched:
                ended_jobs += _ended_in(statement, contract, rows)
            statement = program.send(rows)
    except StopIteration as stop:
        return stop.value, ended_jobs


def _ended_in(statement: Statement, contract: Contract, rows: Sequence[Row]) -> Iterator[EndedJob]:
    at = {name: position for position, name in enumerate(contract.returns)}
    errors: dict[str, str | None] = {}
    if isinstance(statement, Each):
        errors = dict(zip(statement.columns["id"], statement.columns["error"], strict=True))
    for row in rows:
        state = _STATES.get(row[at["state"]])
        if state is not None:
            job_id = row[at["id"]]
            error = errors.get(job_id)
            why = _read_error(error) if error else _Error()
            yield EndedJob(
                job_id,
                row[at["queue"]],
                row[at["type"]],
                state,
                why.category,
                why.code,
                had_failed=contract.ends == "failed jobs",
                claim_version=row[at["claim_version"]],
            )


def log_ended(ended_jobs: Sequence[EndedJob], by: EndedBy) -> None:
    """A line each, while they are few."""
    for ended in ended_jobs[:LINES_AT_ONCE]:
        keys = {
            "job_id": ended.job_id,
            "queue": ended.queue,
            "type": ended.type,
            "state": ended.state,
            "error_code": ended.code,
            **({"claim_version": ended.claim_version} if ended.claim_version else {}),
        }
        if by is EndedBy.OPERATOR:
            log.info("a job was ended on request", extra=keys)
        elif ended.state is State.RETRYING:
            log.warning("an attempt was ended without its worker; the job is tried again", extra=keys)
        elif ended.state is State.CANCELLED:
            log.info("a job was cancelled without its worker", extra=keys)
        else:
            log.error("a job was ended without its worker, and is not tried again", extra=keys)
    if len(ended_jobs) > LINES_AT_ONCE:
        log.warning("%d more jobs were ended without their workers", len(ended_jobs) - LINES_AT_ONCE)
