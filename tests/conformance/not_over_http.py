"""The behaviours that a queue over HTTP does not have, each with its reason and the exception that shows it.

A test named here must fail over HTTP, and in that way.
"""

from __future__ import annotations

import pytest

from euterpe.model.errors import InvalidInput, JobNotFound, PayloadTooLarge, UnknownDependency, Unsupported

ONE_REQUESTER = "a key speaks for one requester; a submission for another one is refused"
IDS = "the control plane gives the ids; those of a graph's drafts are only names inside its request"
TELLS_LESS = "a job's document leaves out what only an engine uses: releases, transitions, retry policy, limits"
CLAIM_TELLS_LESS = "a claim brings what a handler needs, which is less than the whole row"
LEASE = "the control plane decides how long a lease lasts, and every lease has a token"
MARKED = "a checkpoint on the wire begins with the mark of its format, and no document shows it; these do neither"
JSON_RESULT = "a result over HTTP is JSON; this one is not"
RETRY_DELAY = "the answer to a failure does not tell how long the retry waits"
ONE_BODY = "a batch is stored whole, so it is one request, and the body of a request has a limit (4 MB here)"
ONE_FLAG = "the answer to a batch says whether all of it was replayed, not which jobs"
OWN_ROWS = "the client's own key and requester are rows too"
NUL = "NUL is refused in every text before it is looked at as an id: InvalidInput, not UnknownDependency"

NOT_OVER_HTTP: dict[str, tuple[str, type[Exception]]] = {
    **dict.fromkeys(
        (
            "test_another_requesters_job_cannot_be_cancelled",
            "test_another_requesters_job_is_an_unknown_dependency",
            "test_a_key_belongs_to_one_requester_and_one_job_type",
            "test_requesters_do_not_share_a_key",
            "test_scopes_cannot_be_confused_by_clever_names",
            "test_batch_keys_belong_to_their_requester",
            "test_a_replay_is_the_same_request",
            "test_another_requesters_job_can_neither_be_retried_nor_buried",
            "test_another_requesters_event_cannot_be_redelivered",
            "test_events_are_found_by_requester_state_and_job_with_a_stable_cursor",
            "test_an_event_names_itself_its_job_and_its_place",
            "test_a_pruned_job_leaves_a_tombstone_that_only_its_requester_sees",
            "test_each_filter_finds_what_it_names",
            "test_stats_of_one_requester_show_nothing_of_the_others",
            "test_everything_said_is_stored_and_read_back",
        ),
        (ONE_REQUESTER, Unsupported),
    ),
    **dict.fromkeys(
        (
            "test_an_end_runs_down_a_line_of_a_hundred_in_one_transaction",
            "test_a_graph_may_hang_on_jobs_that_are_stored_already",
            "test_a_failure_inside_a_graph_runs_down_its_edges",
            "test_an_edge_to_a_replayed_job_points_to_the_one_that_was_stored",
            "test_a_fan_in_inside_a_graph_waits_for_what_its_parent_will_spawn",
        ),
        (IDS, JobNotFound),
    ),
    **dict.fromkeys(
        (
            "test_a_graph_is_stored_whole_whatever_the_order_of_its_parts",
            "test_what_a_lost_commit_stored_is_found_again_and_not_stored_twice",
        ),
        (IDS, AssertionError),
    ),
    "test_a_line_of_a_hundred_is_accepted_and_one_more_is_not": (IDS, UnknownDependency),
    **dict.fromkeys(
        (
            "test_news_of_a_stale_claim_change_nothing",
            "test_dead_lettering_passes_failed_and_tells_only_its_end",
            "test_a_released_job_can_be_claimed_at_once_and_pays_nothing",
            "test_a_job_is_refunded_twenty_times_and_pays_from_then_on",
            "test_an_unadorned_submission_has_the_defaults_of_the_model",
        ),
        (TELLS_LESS, AssertionError),
    ),
    **dict.fromkeys(
        (
            "test_the_claimer_chooses_how_long_its_lease_is",
            "test_a_claim_gives_tokens_only_when_asked_and_stores_only_their_hashes",
            "test_a_new_claim_forgets_the_token_of_the_claim_before",
        ),
        (LEASE, AssertionError),
    ),
    **dict.fromkeys(
        (
            "test_progress_and_message_are_stored_and_what_is_not_said_stays",
            "test_a_checkpoint_is_handed_to_the_next_attempt",
            "test_a_checkpoint_survives_a_release_and_a_lost_lease",
            "test_several_news_of_one_claim_in_one_batch_all_count",
            "test_bytes_of_every_kind_come_back_as_they_were",
        ),
        (MARKED, AssertionError),
    ),
    **dict.fromkeys(
        ("test_a_temporary_failure_waits_for_its_backoff", "test_a_longer_retry_after_wins_over_the_backoff"),
        (RETRY_DELAY, AssertionError),
    ),
    **dict.fromkeys(
        (
            "test_a_batch_with_an_old_and_a_new_claim_of_one_job_accepts_only_the_new_one",
            "test_a_batch_with_a_new_claim_before_the_old_one_accepts_only_the_new_one",
        ),
        (JSON_RESULT, InvalidInput),
    ),
    **dict.fromkeys(
        (
            "test_a_claim_sets_every_field_of_the_contract",
            "test_a_success_after_failures_clears_the_error",
            "test_a_job_that_a_turn_gives_out_is_the_job_that_is_stored",
        ),
        (CLAIM_TELLS_LESS, AssertionError),
    ),
    "test_a_batch_too_large_for_one_answer_is_claimed_all_the_same": (ONE_BODY, PayloadTooLarge),
    "test_a_batch_may_mix_known_and_new_keys": (ONE_FLAG, AssertionError),
    "test_a_rejected_submission_frees_its_key": (OWN_ROWS, AssertionError),
    r"test_an_unknown_dependency_is_refused_and_nothing_is_stored[http over sqlite-\x00]": (NUL, InvalidInput),
}


def expect_failure(item: pytest.Function) -> None:
    """Mark a test over HTTP whose behaviour cannot hold there."""
    for name in (item.name, item.originalname):
        if name in NOT_OVER_HTTP:
            reason, raises = NOT_OVER_HTTP[name]
            item.add_marker(pytest.mark.xfail(reason=reason, raises=raises, strict=True))
