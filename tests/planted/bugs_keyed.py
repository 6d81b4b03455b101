"""Bugs in turns of jobs with concurrency keys."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_QUERIES = "stores/sql/queries/postgres"
_TURNS = "tests/conformance/test_keyed_turns.py"
_HELD = "tests/caller/test_held_keys.py"

KEYED_BUGS = (
    Bug(
        "the_fence_of_a_turn_with_keys_forgets_the_version",
        (Edit(f"{_QUERIES}/settle_keyed.sql", "j.claim_version = i.claim_version AND ", ""),),
        f"{_TURNS}::test_a_stale_completion_ends_nothing_and_the_others_free_their_places[postgres]",
        "[True, True] == [False, True]",
    ),
    Bug(
        "a_turn_with_keys_counts_only_what_it_takes_itself",
        (Edit(f"{_QUERIES}/claim_keyed.sql", "AND {{key_state}} = 'running'", "AND false"),),
        f"{_TURNS}::test_what_runs_counts_whoever_runs_it[postgres]",
        "one more of each runs, and no third",
    ),
    Bug(
        "a_turn_with_keys_leaves_what_is_over_the_limit_in_the_line",
        (Edit(f"{_QUERIES}/claim_keyed.sql", "SET parked = TRUE", "SET parked = FALSE"),),
        f"{_HELD}::test_the_most_urgent_of_a_full_key_is_parked_at_once_however_many_are_older",
        "2 more items, first extra item: 'park_rest'",
    ),
    Bug(
        "a_turn_with_keys_ends_at_what_it_parked",
        (Edit("stores/sql/exchange/keyed_exchange.py", "if count < rest.total:", "if full:"),),
        f"{_TURNS}::test_what_stands_behind_a_full_key_is_claimed_in_the_same_turn[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_turn_with_keys_lets_no_parked_job_go",
        (Edit(f"{_QUERIES}/claim_keyed.sql", "= k.name AND j.parked)", "= k.name AND j.parked AND false)"),),
        f"{_TURNS}::test_a_turn_claims_what_it_lets_go[postgres]",
        "assert [] == [",
    ),
    Bug(
        "a_turn_with_keys_takes_more_ahead_than_a_key_may_have",
        (Edit(f"{_QUERIES}/claim_keyed.sql", "AND NOT (can_wait AND fits)", "AND NOT can_wait"),),
        f"{_TURNS}::test_ahead_of_its_slots_a_turn_takes_no_more_of_a_key_than_its_limit[postgres]",
        "the third of its key ends the line",
    ),
    Bug(
        "a_turn_with_keys_does_not_look_for_rates",
        (
            Edit(
                f"{_QUERIES}/claim_keyed.sql",
                "OR EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = limit_key)",
                "OR false",
            ),
        ),
        f"{_TURNS}::test_a_turn_keeps_to_the_rate_of_a_key[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_turn_with_keys_ends_a_job_that_got_a_dependent",
        (Edit(f"{_QUERIES}/settle_keyed.sql", "AND NOT j.has_dependents AND j.callback_url IS NULL", ""),),
        f"{_TURNS}::test_a_job_that_got_a_dependent_meanwhile_releases_it[postgres]",
        "State.PENDING",
    ),
    Bug(
        "a_turn_waits_for_keys_no_longer_than_for_rows",
        (Edit(f"{_QUERIES}/settle_keyed.sql", "WHERE (SELECT again FROM patient) ORDER BY key", "ORDER BY key"),),
        f"{_HELD}::test_a_turn_waits_for_a_key_longer_than_for_a_row",
        ("assert not True", "settle_completed"),
    ),
    Bug(
        "a_turn_with_keys_takes_jobs_of_a_key_that_somebody_counts",
        (Edit(f"{_QUERIES}/claim_keyed.sql", "WHERE k.is_held AND", "WHERE"),),
        f"{_HELD}::test_a_turn_that_holds_keys_passes_over_jobs_of_a_key_that_somebody_else_counts",
        "AssertionError",
    ),
    Bug(
        "a_claim_counts_a_key_with_a_snapshot_older_than_its_lock",
        (
            Edit(
                f"{_QUERIES}/claim_keyed.sql",
                "WHERE k.is_held AND (SELECT is_all FROM simple) AND (SELECT keys IS NULL FROM locked)",
                "WHERE (SELECT COALESCE(keys, '') IS NOT NULL FROM locked)",
            ),
            Edit(
                f"{_QUERIES}/claim_keyed.sql",
                "(SELECT is_all FROM simple) AND (SELECT keys IS NULL FROM locked)",
                "true",
            ),
            Edit("stores/sql/exchange/keyed_exchange.py", "if locked is not None:", "if False:"),
        ),
        f"{_HELD}::test_what_a_claim_counts_is_younger_than_the_lock_that_it_waited_for",
        "== []",
    ),
    Bug(
        "a_worker_asks_for_nothing_ahead_behind_a_full_key",
        (
            Edit(
                "worker/claiming/claim_plan.py",
                " or (self._brought_ahead and claims[-1].job.concurrency_key is not None)",
                "",
            ),
        ),
        "tests/worker_units/test_lanes.py::test_a_claim_that_ended_at_a_full_key_is_followed_by_one_ahead",
        "is True",
    ),
)
