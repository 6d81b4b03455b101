"""Bugs in the service of transcoding: its routes, its job type, its callbacks."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TESTS = "tests/transcode/service"

TRANSCODE_SERVICE_BUGS = (
    Bug(
        "outputs_are_published_without_a_fence",
        (
            Edit(
                "Uploads._publish",
                "                content_type=head.file.content_type,\n                fence=self._fence,\n",
                "                content_type=head.file.content_type,\n                fence=_in_a_folder_of_its_own,\n",
            ),
        ),
        f"{_TESTS}/test_stale_workers.py::test_a_worker_that_lost_its_job_publishes_nothing",
        "AssertionError",
    ),
    Bug(
        "what_was_published_stays_when_the_job_is_cancelled",
        (Edit("_Attempt._uploading", "                await uploads.undo()\n", ""),),
        f"{_TESTS}/test_cancelling.py::test_a_cancelled_transcode_leaves_no_files_in_any_stage",
        "AssertionError",
    ),
    Bug(
        "a_job_that_came_past_the_route_is_not_checked",
        (
            Edit(
                "request.py:payload_of",
                'outputs, problems = read_outputs(raw.get("outputs"))\n    if problems:',
                'outputs, problems = read_outputs(raw.get("outputs"))\n    if problems and not outputs:',
            ),
        ),
        f"{_TESTS}/test_http.py::test_a_job_that_came_past_the_route_is_held_against_the_same_rules",
        "AssertionError",
    ),
    Bug(
        "credentials_of_a_replayed_request_are_kept",
        (Edit("TranscodeRoutes.submit", "        if submitted.job_id != job_id:\n", "        if False:\n"),),
        f"{_TESTS}/test_http.py::test_a_repeated_request_gets_the_same_answer_byte_for_byte",
        "AssertionError",
    ),
    Bug(
        "a_replay_does_not_say_so",
        (Edit("routes.py:_answer", "(*headers, REPLAYED) if submitted.replayed else headers", "headers"),),
        f"{_TESTS}/test_http.py::test_a_repeated_request_gets_the_same_answer_byte_for_byte",
        "KeyError",
    ),
    Bug(
        "any_job_has_a_transcode_status",
        (Edit("Statuses.get", "if job.type != JOB_TYPE:", "if not job.type:"),),
        f"{_TESTS}/test_http.py::test_who_may_ask_and_what_a_status_answers",
        "assert 200 == 404",
    ),
    Bug(
        "only_the_first_problem_is_told",
        (
            Edit(
                "_once_each",
                "    return list(by_pointer.values())",
                "    return list(by_pointer.values())[:1]",
            ),
        ),
        f"{_TESTS}/test_http.py::test_every_problem_of_a_request_is_told_with_its_pointer",
        "AssertionError",
    ),
    Bug(
        "a_folder_in_use_is_taken_for_abandoned",
        (
            Edit(
                "Workspaces.remove_abandoned",
                "                if _try_lock(descriptor):\n",
                "                if descriptor:\n",
            ),
        ),
        f"{_TESTS}/test_workspaces.py::test_a_folder_goes_with_its_attempt_however_that_ends",
        "AssertionError",
    ),
    Bug(
        "what_a_killed_worker_left_stays",
        (Edit("transcoder_of", "    workspaces.remove_abandoned()\n", ""),),
        f"{_TESTS}/test_killed_workers.py::test_jobs_of_a_worker_killed_in_any_stage_are_ended_by_another[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_master_playlist_names_files_that_are_elsewhere",
        (Edit("_pointing_into", 'else f"{folder}{line}"', "else line"),),
        f"{_TESTS}/test_outputs_of_many_files.py"
        "::test_a_ladder_is_published_whole_and_its_master_names_files_that_are_there",
        "AssertionError",
    ),
    Bug(
        "a_job_that_is_given_back_tells_nothing",
        (
            Edit(
                "EVENT_STATES_OF_FAMILY",
                "EVENT_STATES_OF_FAMILY: Final = EVENT_STATES | {State.SCHEDULED}",
                "EVENT_STATES_OF_FAMILY: Final = EVENT_STATES",
            ),
        ),
        f"{_TESTS}/test_event_families.py::test_every_change_of_status_is_told_under_the_names_of_the_family[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_retry_by_hand_tells_nothing",
        (Edit("schedule_again", "    yield from insert_events([again])\n", ""),),
        f"{_TESTS}/test_event_families.py::test_a_job_that_failed_and_is_retried_by_hand_is_queued_again[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_failure_that_gives_up_is_tried_again",
        (
            Edit(
                "_settle_failure",
                "    if failure.give_up:\n",
                "    if failure.give_up and job.attempt_count > 99:\n",
            ),
        ),
        f"{_TESTS}/test_event_families.py"
        "::test_a_failure_that_gives_up_makes_a_dead_letter_whatever_the_budget[sqlite]",
        "AssertionError",
    ),
    Bug(
        "credentials_of_a_job_that_may_be_there_are_forgotten",
        (
            Edit(
                "TranscodeRoutes.submit",
                "            raise  # The job may be there, and then it needs them.\n",
                "            await self._forget(job_id)\n            raise\n",
            ),
        ),
        f"{_TESTS}/test_http.py::test_a_job_that_may_yet_be_stored_keeps_its_credentials",
        "assert 0 == 1",
    ),
    Bug(
        "equal_work_of_another_requester_is_shared",
        (
            Edit(
                "shared_work.sql",
                "w.requester_id = (SELECT j.requester_id FROM inbox_jobs AS j WHERE j.id = :job_id) AND ",
                ":job_id = :job_id AND ",
            ),
        ),
        "tests/transcode/runs/test_shared_work.py::test_requesters_share_nothing[sqlite]",
        "AssertionError",
    ),
    Bug(
        "shared_outputs_are_copied_without_a_look_at_them",
        (
            Edit(
                "Uploads._check_there",
                """        if await self._destination.etag_at(document["key"]) != document["etag"]:\n""",
                """        if document["etag"] is None:\n""",
            ),
        ),
        f"{_TESTS}/test_reuse.py::test_what_differs_or_is_gone_or_was_not_asked_for_is_encoded",
        "AssertionError",
    ),
)
