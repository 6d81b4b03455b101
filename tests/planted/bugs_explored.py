"""Bugs in the protocol of claims that the explorer finds, or races of two transactions (Postgres, ADR 021)."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_EXPLORER = "tests/protocol/test_explorer.py"
_PROTOCOL = f"{_EXPLORER}::test_the_protocol_keeps_every_promise_in_every_order_of_its_statements"
_CODE = "tests/protocol/test_follows_the_code.py::test_a_statement_locks_what_the_explorer_locks"
_SNAPSHOTS = "tests/line/test_snapshots.py"
_REFUSED = "tests/refused/test_programs.py"

EXPLORED_BUGS = (
    Bug(
        "single_jobs_behind_a_longer_run_that_another_holds_are_taken",
        (
            Edit(
                "postgres/front.sql",
                " AND (f.before >= (SELECT b.before FROM bound AS b)) IS NOT TRUE",
                "",
            ),
        ),
        f"{_SNAPSHOTS}::test_nothing_behind_a_longer_run_that_somebody_holds_is_taken",
        "assert",
    ),
    Bug(
        "a_claim_passes_over_a_longer_run_that_another_holds",
        (Edit("postgres/front.sql", "({{is_long}} OR NOT {{is_held}})", "NOT {{is_held}}"),),
        f"{_SNAPSHOTS}::test_nothing_behind_a_longer_run_that_somebody_holds_is_taken",
        "assert",
    ),
    Bug(
        "the_explorer_does_not_see_that_a_claim_passes_over_a_longer_run",
        (Edit("postgres/front.sql", "({{is_long}} OR NOT {{is_held}})", "NOT {{is_held}}"),),
        f"{_PROTOCOL}[a run before a lone job]",
        "was taken before it",
    ),
    Bug(
        "a_claim_looks_at_jobs_that_others_are_taking",
        (Edit("postgres/front.sql", "({{is_long}} OR NOT {{is_held}})", "({{is_long}} OR true)"),),
        f"{_SNAPSHOTS}::test_a_claim_gets_what_is_behind_the_jobs_that_others_are_taking",
        "assert",
    ),
    Bug(
        "a_job_whose_claim_was_taken_back_is_never_looked_at",
        (Edit("is_held.sql", "(r.xmax <> '0' AND", "(r.xmax <> '0' OR"),),
        f"{_SNAPSHOTS}::test_a_job_whose_claim_was_rolled_back_is_claimed_next",
        "assert",
    ),
    Bug(
        "a_claim_takes_a_job_whatever_its_state",
        (Edit("taken_rows.sql", " AND j.state = 'scheduled'", ""),),
        f"{_PROTOCOL}[a cancel in a run]",
        "was handed out",
    ),
    Bug(
        "a_settle_forgets_the_line",
        (Edit("postgres/settle.sql", "), entering AS (SELECT * FROM settled), {{enter}}", ")"),),
        f"{_PROTOCOL}[jobs that come back]",
        "in no line",
    ),
    Bug(
        "a_run_of_a_job_that_ended_keeps_a_place_of_its_key",
        (
            Edit(
                "postgres/recount_line.sql",
                "DELETE FROM euterpe_line AS r USING strays AS s",
                "SELECT s.at FROM euterpe_line AS r, strays AS s",
            ),
        ),
        f"{_PROTOCOL}[a cancel of one that waits for its key]",
        "which is cancelled",
    ),
    Bug(
        "a_claim_waits_for_runs_that_others_hold",
        (
            Edit(
                "postgres/front.sql",
                "    FOR UPDATE OF r SKIP LOCKED\n",
                "    FOR UPDATE OF r\n",
            ),
        ),
        f"{_CODE}[turn]",
        "assert",
    ),
    Bug(
        "an_outage_in_the_middle_of_a_claim_looks_like_an_empty_queue",
        (
            Edit(
                "PostgresExchange._claim_rest",
                "                if not claims and not is_told:\n                    raise\n",
                "",
            ),
        ),
        f"{_REFUSED}::test_a_refused_statement_leaves_nothing_half_done_and_is_told_as_what_it_is[postgres-claims_over_http]",
        "AssertionError",
    ),
)
