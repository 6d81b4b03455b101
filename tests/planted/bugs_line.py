"""Bugs in the line of what is ready, and in claims out of it (Postgres, ADR 021)."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_CLAIMS = "tests/line/test_claims.py"
_RUNS = "tests/line/test_runs.py"
_TOLD = "tests/line/test_told_ends.py"
_ENTERING = "tests/line/test_entering.py::test_what_becomes_ready_is_in_the_line_once"
_HOT = "tests/plans/test_hot_updates.py"

LINE_BUGS = (
    Bug(
        "a_claim_that_could_not_be_deleted_is_forgotten",
        (Edit("PostgresExchange._turn", "            self._running.keep_over(over)\n", ""),),
        f"{_CLAIMS}::test_a_claim_that_could_not_be_deleted_is_deleted_when_the_database_is_back",
        "it does not wait for its end",
    ),
    Bug(
        "a_plain_settle_changes_an_index",
        (
            Edit(
                "settled.sql",
                "SET state = 'completed', ",
                "SET state = 'completed', listed = 'completed', ",
            ),
        ),
        f"{_HOT}::test_a_drain_writes_no_index_of_the_jobs[plain-in bulk]",
        "an index mentions what a claim or a settle changes",
    ),
    Bug(
        "a_claim_changes_an_index",
        (
            Edit(
                "claimed.sql",
                "state = 'running', ",
                "state = 'running', listed = 'running', ",
            ),
        ),
        f"{_HOT}::test_a_drain_writes_no_index_of_the_jobs[plain-in bulk]",
        "an index mentions what a claim or a settle changes",
    ),
    Bug(
        "the_event_of_a_plain_completion_is_lost",
        (
            Edit("plain_completions", "            or job.callback_url is not None\n", ""),
            Edit("settled.sql", " AND j.callback_url IS NULL", ""),
        ),
        f"{_TOLD}::test_a_completion_writes_the_event_that_its_row_tells[and claims]",
        "AssertionError",
    ),
    Bug(
        "a_plain_completion_is_not_fenced_by_the_lease",
        (Edit("settled.sql", " AND j.lease_expires_at IS NOT NULL", ""),),
        f"{_CLAIMS}::test_jobs_of_a_claim_whose_answer_was_lost_are_given_back_uncharged",
        "AssertionError",
    ),
    Bug(
        "a_plain_completion_forgets_dependents",
        (Edit("settled.sql", "AND NOT j.has_dependents ", ""),),
        f"{_CLAIMS}::test_a_dependent_that_comes_while_a_job_runs_is_told_of_its_end",
        "<State.PENDING: 'pending'> is <State.SCHEDULED: 'scheduled'>",
    ),
    Bug(
        "a_claim_uses_up_no_version",
        (
            Edit(
                "claimed.sql",
                "claim_version = j.claim_version + 1, ",
                "claim_version = GREATEST(j.claim_version, 1), ",
            ),
        ),
        f"{_CLAIMS}::test_whoever_knows_a_claim_renews_releases_fails_or_completes_it_from_another_process",
        "AssertionError",
    ),
    Bug(
        "a_claim_takes_what_stands_behind_a_run_that_another_holds",
        (Edit("postgres/front.sql", "WHERE l.times = 1", "WHERE l.times = 0"),),
        f"{_RUNS}::test_nothing_is_taken_from_behind_a_run_that_another_claim_holds",
        "AssertionError",
    ),
    Bug(
        "a_claim_that_others_hold_up_comes_back_empty",
        (
            Edit(
                "PostgresExchange._claim_rest",
                "not (done.again or done.keys_are_due or done.at_telling)",
                "not (done.keys_are_due or done.at_telling)",
            ),
        ),
        f"{_RUNS}::test_a_claim_that_meets_only_runs_which_others_hold_asks_again[one queue]",
        "AssertionError",
    ),
    Bug(
        "long_runs_come_before_lone_jobs",
        (
            Edit(
                "parts.sql",
                "WINDOW line AS (ORDER BY h.place, h.priority, h.rank, h.seq)",
                "WINDOW line AS (ORDER BY h.place, h.priority, h.rank, h.size DESC, h.seq)",
            ),
        ),
        f"{_RUNS}::test_bulk_and_lone_jobs_are_claimed_in_one_order",
        "AssertionError",
    ),
    Bug(
        "a_job_is_claimed_at_the_place_of_its_former_priority",
        (Edit("taken_rows.sql", "j.priority = n.priority AND ", ""),),
        f"{_RUNS}::test_a_claim_passes_over_what_left_its_run",
        "AssertionError",
    ),
    Bug(
        "a_cancelled_job_of_a_run_is_claimed",
        (Edit("taken_rows.sql", " AND j.state = 'scheduled'", ""),),
        f"{_RUNS}::test_a_claim_passes_over_what_left_its_run",
        ("AssertionError", "CheckViolation"),
    ),
    Bug(
        "a_run_is_as_long_as_a_submit",
        (Edit("enter.sql", "(r.place - 1) / 250", "(r.place - 1) / 100000"),),
        f"{_RUNS}::test_a_bulk_submit_stands_in_runs_of_250_and_a_lone_one_in_its_own",
        "AssertionError",
    ),
    Bug(
        "a_run_joins_jobs_that_are_no_neighbours",
        (Edit("enter.sql", "r.seq - r.place, ", ""),),
        f"{_RUNS}::test_jobs_that_come_back_stand_in_runs_of_neighbours",
        "AssertionError",
    ),
    Bug(
        "what_was_submitted_alone_is_in_no_line",
        (
            Edit(
                "postgres/insert_one.sql",
                "FROM entering AS j WHERE j.state = 'scheduled'",
                "FROM entering AS j WHERE false",
            ),
        ),
        f"{_ENTERING}[lone]",
        "AssertionError",
    ),
    *(
        Bug(
            f"what_was_{way.replace(' ', '_')}_is_in_no_line",
            (Edit(file, ", {{enter}}", ""),),
            f"{_ENTERING}[{way}]",
            "AssertionError",
        )
        for way, file in (
            ("with an idempotency key", "postgres/insert_job.sql"),
            ("in bulk", "postgres/insert_uniform.sql"),
            ("promoted", "postgres/promote_due.sql"),
            ("released", "postgres/release_dependents.sql"),
            ("released and told", "postgres/resolve_dependent.sql"),
            ("given back", "postgres/settle.sql"),
            ("retried by hand", "postgres/retry_failed.sql"),
            ("made more urgent", "postgres/update_metadata.sql"),
        )
    ),
)
