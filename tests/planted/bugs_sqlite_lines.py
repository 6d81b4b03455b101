"""Bugs in the lines of SQLite: what a claim reads, which keys have a place, and what a trigger sees."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_BACKLOGS = "tests/plans/test_sqlite_backlogs.py::test_a_backlog_costs_the_jobs_beside_it_nothing"
_MOVES = "tests/line/test_sqlite_moves.py::test_every_move_is_in_the_table_and_none_is_left_out"

SQLITE_LINES_BUGS = (
    Bug(
        "a_claim_reads_the_jobs_of_other_types_on_sqlite",
        (
            Edit(
                "line.sql",
                "x.queue = :queue AND x.type = a.type AND x.state",
                "x.queue = :queue AND +x.type = a.type AND x.state",
            ),
        ),
        f"{_BACKLOGS}[an unknown type]",
        "steps beside",
    ),
    Bug(
        "the_running_jobs_of_a_key_are_sought_among_all_that_wait_on_sqlite",
        (
            Edit(
                "running.sql",
                "INDEXED BY inbox_jobs_running_keys\n            WHERE o.line = f.name AND o.state || '' = 'running' AND",
                "NOT INDEXED\n            WHERE o.line = f.name AND o.state || '' = 'running' AND",
            ),
        ),
        f"{_BACKLOGS}[a full key]",
        "steps beside",
    ),
    Bug(
        "a_full_key_keeps_its_front_on_sqlite",
        (
            Edit(
                "sqlite/admit.sql",
                "WHERE (f.running >= j.concurrency_limit) IS NOT TRUE\n",
                "",
            ),
        ),
        "tests/conformance/test_keyed_turns.py"
        "::test_the_most_urgent_of_a_full_key_is_parked_however_many_are_older[sqlite]",
        "AssertionError",
    ),
    Bug(
        "the_next_job_of_a_chain_waits_like_a_retry_on_sqlite",
        (
            Edit(
                "sqlite/release_dependents.sql",
                "THEN 'delayed' ELSE 'scheduled' END",
                "THEN 'delayed' ELSE 'retrying' END",
            ),
        ),
        _MOVES,
        "not in the table",
    ),
)
