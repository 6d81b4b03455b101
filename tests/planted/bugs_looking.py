"""Bugs in what people are told about their jobs."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_WHY = "tests/conformance/test_why.py"
_AHEAD = "stores/sql/queries/jobs_ahead.sql"

LOOKING_BUGS = (
    Bug(
        "the_place_in_a_queue_forgets_priorities",
        (Edit(_AHEAD, "(priority, seq) < (:priority, :seq)", "priority <= :priority AND seq < :seq"),),
        f"{_WHY}::test_a_job_says_how_many_are_ahead_of_it_in_its_queue[sqlite]",
        "Reason.POSITION",
    ),
    Bug(
        "jobs_of_a_paused_type_count_as_ahead",
        (Edit("stores/sql/reads/why.py", "if looked_at > AHEAD_LIMIT else int(ahead)", ""),),
        f"{_WHY}::test_jobs_that_a_claim_would_pass_over_are_not_ahead[sqlite]",
        "Reason.NEXT",
    ),
    Bug(
        "everything_ahead_is_counted_however_much_it_is",
        (Edit(_AHEAD, "ORDER BY priority, seq LIMIT :limit", "ORDER BY priority, seq LIMIT 1000 * :limit"),),
        "tests/plans/test_long_queues.py::test_the_jobs_ahead_on_sqlite_are_looked_at_up_to_the_bound",
        "assert 5000 ==",
    ),
    Bug(
        "a_key_counts_as_full_when_it_has_a_free_slot",
        (Edit("model/why.py", "found.blocker_count >= limit", "found.blocker_count >= 1"),),
        f"{_WHY}::test_a_full_concurrency_key_names_who_holds_it[sqlite]",
        "Reason.NEXT",
    ),
    Bug(
        "a_dependency_that_has_ended_is_still_named",
        (Edit("stores/sql/queries/unfinished_dependencies.sql", " AND d.completed_at IS NULL", ""),),
        f"{_WHY}::test_a_pending_job_names_what_it_waits_for[sqlite]",
        "check",
    ),
    Bug(
        "anybody_may_ask_why_a_job_waits",
        (Edit("stores/sql/reads/why.py", "if not rows or requester_id not in (None, rows[0][1]):", "if not rows:"),),
        f"{_WHY}::test_a_requester_gets_no_explanation_of_anybody_elses_job[sqlite]",
        "DID NOT RAISE",
    ),
)
