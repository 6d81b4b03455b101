"""Bugs in turns that claim what they release."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TURNS = "tests/conformance/test_released_in_turns.py"

RELEASED_BUGS = (
    Bug(
        "the_fence_of_a_turn_that_releases_forgets_the_version",
        (
            Edit("settle_completed.sql", "w.claim_version = i.claim_version AND ", ""),
            Edit("settle_completed.sql", "j.claim_version = i.claim_version AND ", ""),
        ),
        f"{_TURNS}::test_a_stale_completion_releases_nothing_and_the_others_do[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_turn_releases_what_waits_for_others_too",
        (Edit("_resolve_dependents", "if pending == len(ends[job_id])", "if pending >= len(ends[job_id])"),),
        f"{_TURNS}::test_a_job_that_waits_for_another_too_stays[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_turn_takes_released_jobs_with_a_key_unseen",
        (
            Edit(
                "enter.sql",
                "FROM entering AS j WHERE j.state = 'scheduled' AND j.concurrency_key IS NULL) AS e",
                "FROM entering AS j WHERE j.state = 'scheduled') AS e",
            ),
        ),
        f"{_TURNS}::test_released_jobs_are_held_to_the_limits_of_their_keys[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_turn_takes_released_jobs_that_are_paused",
        (
            Edit(
                "kinds.sql",
                "p.kind = 'type' AND p.name = t.type",
                "p.kind = 'type' AND p.name < ''",
            ),
        ),
        f"{_TURNS}::test_what_is_paused_is_released_and_not_claimed[postgres-type]",
        "AssertionError",
    ),
    Bug(
        "a_turn_tells_nothing_of_what_it_releases",
        (Edit("_resolve_dependents", "        and job_id not in with_callbacks\n", ""),),
        f"{_TURNS}::test_a_release_that_is_told_is_told_and_claimed[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_released_job_that_cannot_wait_is_claimed_ahead",
        (Edit("postgres/front.sql", "WHERE NOT a.can_wait AND a.before", "WHERE false AND a.before"),),
        f"{_TURNS}::test_a_released_job_that_cannot_wait_ends_what_is_claimed_ahead[postgres]",
        "AssertionError",
    ),
)
