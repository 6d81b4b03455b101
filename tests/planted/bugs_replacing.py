"""Bugs in how outputs replace what lies under their keys."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TESTS = "tests/transcode/service/test_replacing.py"

REPLACING_BUGS = (
    Bug(
        "first_attempts_of_all_jobs_share_a_folder",
        (
            Edit(
                "UploadAttempt.folder",
                'return f"attempt-{self.job_id}-{self.claim_version}/"',
                'return f"attempt-{self.claim_version}/"',
            ),
        ),
        f"{_TESTS}::test_the_old_outputs_play_while_new_ones_upload_and_stay_when_the_job_is_cancelled[local]",
        "AssertionError",
    ),
    Bug(
        "an_undo_deletes_a_key_that_held_something_before",
        (Edit("Uploads._note_published", "if self._held[name] is None and etag is not None:", "if etag is not None:"),),
        f"{_TESTS}::test_a_job_that_fails_between_two_outputs_deletes_nothing_that_was_there[local]",
        "AssertionError",
    ),
    Bug(
        "an_undo_deletes_segments_that_a_playlist_names",
        (Edit("Uploads.undo", "if plan.parts and await self._is_as_before(plan.heads[0].name):", "if plan.parts:"),),
        f"{_TESTS}::test_a_job_that_fails_between_two_outputs_deletes_nothing_that_was_there[local]",
        "AssertionError",
    ),
    Bug(
        "an_output_is_published_while_others_are_not_uploaded",
        (Edit("Uploads.put_all", "        if len(heads) > 1:", "        if False:"),),
        "tests/cli/test_transcode.py::test_a_command_that_fails_leaves_the_users_old_file",
        "AssertionError",
    ),
    Bug(
        "segments_of_a_killed_attempt_stay_for_ever",
        (Edit("Uploads.put_all", "if plan.parts and self._attempt.claim_version > 1:", "if False:"),),
        f"{_TESTS}::test_a_worker_killed_in_the_middle_leaves_a_whole_output_and_the_next_attempt_tidies[s3-staged]",
        "AssertionError",
    ),
    Bug(
        "the_same_output_again_leaves_its_upload_open",
        (Edit("MultipartUpload.publish", "        if self._is_completed:\n", "        if True:\n"),),
        "tests/transcode/storage/test_s3_outputs.py::test_the_same_output_again_leaves_no_upload_open",
        "AssertionError",
    ),
)
