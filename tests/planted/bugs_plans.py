"""Bugs in how statements get at their rows."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_KEPT = "tests/plans/test_kept_events.py"
_PRUNE = "stores/sql/queries/prune_events.sql"
_THROUGH_ALL_OF_A_STATE = (
    Edit(_PRUNE, " {{by job_outbox_events_over}}", ""),
    Edit(_PRUNE, "completed_at IS NOT NULL AND completed_at <=", "completed_at <="),
    Edit(_PRUNE, "ORDER BY completed_at", "ORDER BY seq"),
)

PLAN_BUGS = (
    Bug(
        "the_first_plans_are_made_for_their_values",
        (
            Edit(
                "stores/sql/postgres/session.py", '"plan_cache_mode": "force_generic_plan"', '"plan_cache_mode": "auto"'
            ),
        ),
        "tests/plans/test_postgres_plans.py::test_no_plan_is_made_for_the_values_of_one_execution",
        "plans were made for the values of one execution",
    ),
    Bug(
        "a_prune_reads_through_the_events_that_are_kept_on_postgres",
        _THROUGH_ALL_OF_A_STATE,
        f"{_KEPT}::test_a_prune_on_postgres_reads_no_event_that_is_kept",
        "kept events were read",
    ),
    Bug(
        "a_prune_reads_through_the_events_that_are_kept_on_sqlite",
        (Edit(_PRUNE, "{{by job_outbox_events_over}}", "{{by job_outbox_events_state}}"),),
        f"{_KEPT}::test_a_prune_on_sqlite_reads_no_event_that_is_kept",
        "steps past the kept events",
    ),
)
