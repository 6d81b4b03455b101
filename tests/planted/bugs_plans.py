"""Bugs in how statements get at their rows."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_KEPT = "tests/plans/test_kept_events.py"
_THROUGH_ALL_OF_A_STATE = (
    Edit("prune_events.sql", " {{by job_outbox_events_over}}", ""),
    Edit("prune_events.sql", "completed_at IS NOT NULL AND completed_at <=", "completed_at <="),
    Edit("prune_events.sql", "ORDER BY completed_at", "ORDER BY seq"),
)

_BACKLOG = "tests/plans/test_backlog.py"
_BESIDE_MORE = "test_no_statement_reads_more_where_more_waits[look_around]"

PLAN_BUGS = (
    Bug(
        "completed_jobs_are_sought_through_the_whole_backlog",
        (Edit("newest.sql", " LIMIT 2 * :limit + 1000", ""),),
        f"{_BACKLOG}::{_BESIDE_MORE}",
        "pages read with",
    ),
    Bug(
        "what_waits_is_counted_to_its_end",
        (
            Edit(
                "postgres/queue_backlog.sql",
                "ORDER BY r.rank, r.seq LIMIT :limit",
                "ORDER BY r.rank, r.seq",
            ),
        ),
        f"{_BACKLOG}::{_BESIDE_MORE}",
        "pages read with",
    ),
    Bug(
        "a_page_of_what_waits_reads_the_whole_line",
        (
            Edit(
                "waiting_between.sql",
                "AND r.seq < :before AND r.seq > CAST(:down_to AS bigint) - 250",
                "AND r.seq + 0 < :before AND r.seq + 0 > CAST(:down_to AS bigint) - 250",
            ),
        ),
        f"{_BACKLOG}::test_a_page_of_a_list_reads_no_more_where_more_waits",
        "pages read with",
    ),
    Bug(
        "a_list_of_a_rare_state_is_sought_in_all_jobs",
        (
            Edit(
                "postgres/found.sql",
                "ORDER BY w.listed DESC, w.seq DESC LIMIT :limit",
                "ORDER BY w.seq DESC LIMIT :limit",
            ),
            Edit(
                "postgres/found.sql",
                "w.listed IS NOT NULL AND (w.listed, w.seq) < ({{one_state}}, :before)"
                " AND (w.listed, w.seq) >= ({{one_state}}, :down_to)",
                "w.listed || '' = {{one_state}} AND w.seq < :before AND w.seq >= :down_to",
            ),
        ),
        f"{_BACKLOG}::test_a_page_of_a_list_reads_no_more_where_more_waits",
        "pages read with",
    ),
    Bug(
        "the_first_plans_are_made_for_their_values",
        (Edit("SETTINGS", '"plan_cache_mode": "force_generic_plan"', '"plan_cache_mode": "auto"'),),
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
        (Edit("prune_events.sql", "{{by job_outbox_events_over}}", "{{by job_outbox_events_state}}"),),
        f"{_KEPT}::test_a_prune_on_sqlite_reads_no_event_that_is_kept",
        "steps past the kept events",
    ),
)
