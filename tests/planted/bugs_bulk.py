"""Bugs in acts on everything that matches, and in the causes of failures."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_BULK = "tests/conformance/test_bulk_operations.py"
_GROUPS = "tests/conformance/test_failure_groups.py"

BULK_BUGS = (
    Bug(
        "a_batch_is_acted_on_by_everybody_who_found_it",
        (
            Edit("hold_operation.sql", "AND o.place = :place AND o.state = 'running' ", ""),
            Edit("advance_operation.sql", "AND o.place = :seen AND o.state = 'running'", ""),
        ),
        f"{_BULK}::test_two_who_work_at_once_act_on_every_job_once[sqlite]",
        "assert (",
    ),
    Bug(
        "a_cancelled_operation_goes_on",
        (
            Edit("hold_operation.sql", "AND o.state = 'running' ", ""),
            Edit("running_operations.sql", "WHERE o.state = 'running' ", ""),
            Edit("advance_operation.sql", " AND o.state = 'running'", ""),
        ),
        f"{_BULK}::test_an_operation_that_is_cancelled_acts_on_no_further_job[sqlite]",
        "assert (",
    ),
    Bug(
        "a_job_that_failed_later_joins",
        (Edit("why_skipped", "if watching and _moved_at(job) > created_at:", "if _moved_at(job) < 0:"),),
        f"{_BULK}::test_jobs_that_come_or_change_later_do_not_join[sqlite]",
        "assert (",
    ),
    Bug(
        "the_jobs_of_all_requesters_are_acted_on",
        (Edit("batches.py:search_of", "requester_id=operation.requester_id", "requester_id=None"),),
        f"{_BULK}::test_a_requester_sees_and_touches_only_its_own[sqlite]",
        "State.CANCELLED",
    ),
    Bug(
        "a_job_that_is_retried_keeps_its_cause",
        (
            Edit(
                "operate/retry_failed.sql",
                "fingerprint = NULL, failed_at = NULL, replayed_as",
                "replayed_as",
            ),
        ),
        f"{_GROUPS}::test_a_job_that_is_retried_and_completes_is_in_no_group[sqlite]",
        "assert [",
    ),
    Bug(
        "numbers_make_causes",
        (Edit("_OWN", "| (?P<number>", "| (?P<number>never"),),
        f"{_GROUPS}::test_failures_with_one_cause_are_one_group[sqlite]",
        "assert",
    ),
    Bug(
        "a_replayed_job_stays_in_its_group",
        (Edit("operate/mark_replayed.sql", ", fingerprint = NULL, failed_at = NULL", ""),),
        f"{_GROUPS}::test_a_replayed_group_leaves_the_list_and_what_fails_again_comes_back[sqlite]",
        "nobody need act on what runs again",
    ),
    Bug(
        "two_operations_replay_a_job_twice",
        (
            Edit(
                "batches.py:act", "if skipped is None and job.id in replayed and watches_replays(search):", "if False:"
            ),
            Edit(
                "batches.py:_again",
                'msgspec.structs.replace(replay_of(job), idempotency_key=f"{REPLAY_KEY}{job.id}")',
                "replay_of(job)",
            ),
        ),
        f"{_GROUPS}::test_of_two_operations_on_one_cause_the_second_runs_nothing_twice[sqlite]",
        "assert",
    ),
    Bug(
        "a_replay_that_is_submitted_marks_nothing",
        (Edit("UnitCommits._commit", " and not graph_replay.are_replays(units)", ""),),
        f"{_GROUPS}::test_every_way_to_run_a_failure_again_takes_it_off_the_list[sqlite]",
        "retried",
    ),
    Bug(
        "two_operations_replay_a_plain_job_twice",
        (
            Edit(
                "batches.py:_again",
                'msgspec.structs.replace(replay_of(job), idempotency_key=f"{REPLAY_KEY}{job.id}")',
                "replay_of(job)",
            ),
        ),
        "tests/conformance/test_bulk_operations.py"
        "::test_a_plain_job_that_was_replayed_is_not_run_again_by_another_operation[sqlite-replay]",
        "assert (5, 0, {}) == (0",
    ),
    Bug(
        "a_bulk_retry_runs_what_was_replayed",
        (Edit("batches.py:act", "{job.id for job in jobs} - replayed if", "{job.id for job in jobs} if"),),
        "tests/conformance/test_bulk_operations.py"
        "::test_a_plain_job_that_was_replayed_is_not_run_again_by_another_operation[sqlite-retry]",
        "assert (5, 0, {}) == (0",
    ),
    Bug(
        "a_job_type_shares_its_idempotency_keys_with_batches",
        (Edit("idempotency_scope", 'job_type = f"*{job_type}"', "job_type = job_type"),),
        "tests/conformance/test_idempotency.py::test_no_type_shares_its_keys_with_batches",
        "",
    ),
    Bug(
        "a_fan_in_does_not_wait_for_a_child_that_was_kept_for_its_unique_key",
        (Edit("SqlStore.submit_unit", "            check_children(unit)\n", "            pass\n"),),
        "tests/conformance/test_fan_in.py"
        "::test_a_child_has_no_unique_key_since_a_fan_in_would_not_wait_for_the_job_that_is_kept[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_retry_does_not_look_at_its_unique_key",
        (
            Edit(
                "operate/retry_failed.sql",
                "(j.unique_key IS NULL OR CAST(:holds_key AS boolean))",
                "CAST(:holds_key AS boolean) IS NOT NULL",
            ),
        ),
        "tests/conformance/test_unique.py::test_a_retry_takes_its_key_again_or_is_refused",
        "DID NOT RAISE",
    ),
)
