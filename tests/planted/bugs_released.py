"""Bugs in turns that claim what they release."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_QUERIES = "stores/sql/queries/postgres"
_TURNS = "tests/conformance/test_released_in_turns.py"

RELEASED_BUGS = (
    Bug(
        "the_fence_of_a_turn_that_releases_forgets_the_version",
        (Edit(f"{_QUERIES}/settle_plain.sql", "j.claim_version = i.claim_version AND ", ""),),
        f"{_TURNS}::test_a_stale_completion_releases_nothing_and_the_others_do[postgres]",
        "[True, True] == [False, True]",
    ),
    Bug(
        "a_turn_releases_what_waits_for_others_too",
        (
            Edit(f"{_QUERIES}/release_and_claim.sql", "w.pending_dependencies = e.ends AND ", ""),
            Edit(f"{_QUERIES}/release_and_claim.sql", "j.pending_dependencies = d.ends AND ", ""),
        ),
        f"{_TURNS}::test_a_job_that_waits_for_another_too_stays[postgres]",
        "AssertionError",
    ),
    Bug(
        "what_a_turn_releases_goes_first",
        (
            Edit(
                f"{_QUERIES}/release_and_claim.sql",
                "ORDER BY m.priority, m.seq) AS place",
                "ORDER BY m.id NULLS LAST, m.seq) AS place",
            ),
        ),
        f"{_TURNS}::test_what_is_released_takes_its_place_among_all_that_wait[postgres]",
        "AssertionError",
    ),
    Bug(
        "too_few_are_picked_beside_what_is_released",
        (
            Edit(
                f"{_QUERIES}/release_and_claim.sql",
                "\n      AND ((w.priority, w.seq) < (SELECT f.priority, f.seq FROM head AS f)) IS NOT FALSE",
                "",
            ),
        ),
        f"{_TURNS}::test_what_is_released_behind_the_limit_waits[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_turn_takes_released_jobs_with_a_key_unseen",
        (Edit(f"{_QUERIES}/release_and_claim.sql", "p.is_claimable AND l.plain AND", "p.is_claimable AND"),),
        f"{_TURNS}::test_released_jobs_are_held_to_the_limits_of_their_keys[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_turn_takes_released_jobs_that_are_paused",
        (Edit(f"{_QUERIES}/release_and_claim.sql", "{{unpaused}} AND NOT w.parked", "NOT w.parked"),),
        f"{_TURNS}::test_what_is_paused_is_released_and_not_claimed[postgres-type]",
        "AssertionError",
    ),
    Bug(
        "a_turn_tells_nothing_of_what_it_releases",
        (
            Edit(f"{_QUERIES}/release_and_claim.sql", "w.callback_url IS NULL AND w.dependency", "w.dependency"),
            Edit(f"{_QUERIES}/release_and_claim.sql", " AND j.callback_url IS NULL\n", "\n"),
        ),
        f"{_TURNS}::test_a_release_that_is_told_is_told_and_claimed[postgres]",
        "AssertionError",
    ),
    Bug(
        "what_one_statement_does_not_release_stays_for_ever",
        (Edit("stores/sql/exchange/one_statement.py", "        return not are_left\n", "        return True\n"),),
        f"{_TURNS}::test_a_release_that_is_told_is_told_and_claimed[postgres]",
        "AssertionError",
    ),
    Bug(
        "what_is_released_last_is_not_asked_for",
        (Edit("stores/sql/exchange/one_statement.py", "released_later=are_left", "released_later=False"),),
        f"{_TURNS}::test_a_release_that_is_told_is_told_and_claimed[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_released_job_that_cannot_wait_is_claimed_ahead",
        (
            Edit(
                f"{_QUERIES}/release_and_claim.sql",
                "place > :limit AND NOT can_wait",
                "place < 0 AND NOT can_wait",
            ),
        ),
        f"{_TURNS}::test_a_released_job_that_cannot_wait_ends_what_is_claimed_ahead[postgres]",
        "AssertionError",
    ),
)
