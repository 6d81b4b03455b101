"""Bugs in how long an idempotency key is remembered."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_WINDOWS = "tests/conformance/test_idempotency_windows.py"

WINDOW_BUGS = (
    Bug(
        "a_submissions_own_window_is_forgotten",
        (
            Edit(
                "submitting/submit.py:_window_us",
                "return default_us if submission.idempotency_window_us is None else ",
                "return default_us or ",
            ),
        ),
        f"{_WINDOWS}::test_a_submission_names_its_own_window[sqlite-met by a submit]",
        "AssertionError",
    ),
    Bug(
        "the_configured_window_does_not_reach_the_submit",
        (
            Edit(
                "UnitCommits._commit",
                "graph_replay.submit_and_mark(units, self._key_window_us())",
                "graph_replay.submit_and_mark(units, 24 * 3600 * 1_000_000)",
            ),
        ),
        f"{_WINDOWS}::test_the_configured_window_is_for_all_that_name_none[sqlite-swept]",
        "AssertionError",
    ),
    Bug(
        "the_configuration_is_not_applied",
        (Edit("apply_store_settings", "    store.key_window_us = retention.idempotency_us\n", ""),),
        "tests/service/test_retention.py::test_the_sweeps_keep_what_the_configuration_says",
        "key_window_us",
    ),
    Bug(
        "a_short_window_frees_the_key_of_a_job_that_has_just_ended",
        (
            Edit(
                "expire_keys.sql",
                "j.completed_at + (k.expires_at - k.created_at) > {{now}}",
                "j.completed_at > {{now}}",
            ),
        ),
        f"{_WINDOWS}::test_the_window_counts_from_the_end_and_a_key_is_never_free_while_its_job_lives[sqlite-7200000000]",
        "AssertionError",
    ),
    Bug(
        "pruning_a_job_frees_its_key",
        (Edit("insert_key.sql", "t.pruned_at + (k.expires_at - k.created_at)", "t.pruned_at"),),
        f"{_WINDOWS}::test_a_job_that_is_pruned_early_keeps_its_key_for_its_window[sqlite]",
        "AssertionError",
    ),
    Bug(
        "the_window_is_part_of_the_request",
        (
            Edit(
                "request_hash",
                "        submission.concurrency_limit,\n    ]",
                "        submission.concurrency_limit,\n        submission.idempotency_window_us,\n    ]",
            ),
        ),
        "tests/model/test_request_hash.py::test_the_key_and_its_scope_are_no_part_of_the_request",
        "AssertionError",
    ),
)
