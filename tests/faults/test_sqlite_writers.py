"""Sixteen processes write one SQLite file: nobody sees "locked", and nobody starves."""

from __future__ import annotations

from statistics import median

from tests.faults import actors
from tests.faults.crew import Crew, together
from tests.faults.history import check
from tests.patience import in_time

WRITERS = 16
FOR_S = 3.0
TURNS = 20
"""How many rounds of everybody a single write may wait; SQLite's lock has no queue, so it is not one."""


async def test_sixteen_processes_write_one_file_and_none_is_told_that_it_is_locked(
    sqlite_database: str, crew: Crew
) -> None:
    told: list[list[float]] = await together(crew.start_many(WRITERS, actors.writer, sqlite_database, FOR_S))
    counts = [len(waits) for waits in told]
    longest = [max(waits) for waits in told]
    print(
        f"{WRITERS} writers, {sum(counts) / FOR_S:.0f} durable writes/s together, each"
        f" {min(counts) / FOR_S:.0f} to {max(counts) / FOR_S:.0f}/s;"
        f" one write waited {1000 * median(w for waits in told for w in waits):.1f} ms (median),"
        f" {1000 * max(longest):.0f} ms at worst"
    )
    assert min(counts) > 0
    round_s = WRITERS * FOR_S / sum(counts)
    in_time(max(longest), max(2.0, TURNS * round_s), "a writer starved")
    check(sqlite_database, crew)
