"""Bugs in reading sources, writing outputs and keeping credentials."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TESTS = "tests/transcode/storage"
_CREDENTIALS = "tests/transcode/credentials"

STORAGE_BUGS = (
    Bug(
        "an_output_is_published_without_asking_the_fence",
        (Edit("publish", "        await fence()\n        try:", "        try:"),),
        f"{_TESTS}/test_fencing.py::test_a_stale_claim_makes_nothing_visible[one put]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_taken_key_is_replaced_without_asking_the_fence_again",
        (
            Edit(
                "publish",
                "        await fence()\n        try:",
                "        if condition is FREE:\n            await fence()\n        try:",
            ),
        ),
        f"{_TESTS}/test_fencing.py::test_of_two_that_replace_an_older_object_the_late_one_stops[one put]",
        "DID NOT RAISE",
    ),
    Bug(
        "the_first_condition_is_left_out",
        (Edit("publish", "    condition = FREE\n", "    condition = _WHATEVER\n"),),
        f"{_TESTS}/test_fencing.py::"
        "test_a_worker_that_froze_behind_its_last_check_does_not_replace_the_newer_output[one put]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_failed_upload_is_not_aborted",
        (
            Edit(
                "MultipartUpload._aborting_on_failure",
                "            await self.discard()\n            if isinstance(error, StorageError)",
                "            if isinstance(error, StorageError)",
            ),
        ),
        f"{_TESTS}/test_s3_outputs.py::test_an_upload_that_fails_leaves_nothing_behind",
        "AssertionError",
    ),
    Bug(
        "an_upload_is_noted_too_late",
        (
            Edit(
                "MultipartUpload._begin_and_note",
                "            await self._ledger.opened(self._attempt, upload)\n",
                "            pass\n",
            ),
            Edit(
                "MultipartUpload.publish",
                "        ours = expected_etag(self._etags)\n        assert self._upload is not None\n",
                "        ours = expected_etag(self._etags)\n        assert self._upload is not None\n"
                "        await self._ledger.opened(self._attempt, self._upload)\n",
            ),
        ),
        f"{_TESTS}/test_killed_writers.py::test_a_worker_killed_at_each_step_leaves_nothing_visible[part 1]",
        "AssertionError",
    ),
    Bug(
        "a_200_is_believed_before_its_body_is_read",
        (
            Edit(
                "MultipartUpload._complete",
                "            if is_error_document(answer.body):\n"
                "                raise late_failure(self._client.place(self._key), answer.body)\n",
                "",
            ),
        ),
        f"{_TESTS}/test_s3_outputs.py::test_a_completion_that_fails_behind_its_200_is_no_success",
        "DID NOT RAISE",
    ),
    Bug(
        "a_resumed_download_takes_whatever_version_is_there",
        (
            Edit(
                "Download._check_place",
                "if received.size and etag is not None and etag != received.etag:",
                "if False:",
            ),
        ),
        f"{_TESTS}/test_s3_sources.py::test_a_source_that_changes_on_the_way_is_no_mixture",
        "DID NOT RAISE",
    ),
    Bug(
        "a_range_is_known_by_its_status",
        (
            Edit(
                "_range_of",
                '    return _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))',
                "    if response.status == 200:\n        return None\n"
                '    return _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))',
            ),
        ),
        f"{_TESTS}/test_s3_sources.py::test_a_broken_line_is_resumed_where_it_broke",
        "Error",
    ),
    Bug(
        "expired_credentials_are_known_by_401_and_403_alone",
        (
            Edit(
                "is_refusal_of_credentials",
                " or (http_status == 400 and store_code in EXPIRED_CODES)",
                "",
            ),
        ),
        f"{_TESTS}/test_s3_outputs.py::test_an_upload_goes_on_with_fresh_credentials_part_by_part",
        "StorageError",
    ),
    Bug(
        "a_wrong_scope_is_refreshed_for_ever",
        (
            Edit(
                "Renewing.after",
                'if reason == "denied" and (past.waits or self._is_new(version)):',
                "if False:",
            ),
        ),
        f"{_TESTS}/test_s3_sources.py"
        "::test_fresh_credentials_that_are_refused_for_a_minute_end_the_attempt_and_no_more_are_asked_for",
        ("DID NOT RAISE", "AssertionError"),
    ),
    Bug(
        "new_credentials_have_no_time_to_settle",
        (Edit("SETTLING_S", "SETTLING_S: Final = 60.0", "SETTLING_S: Final = 0.0"),),
        f"{_TESTS}/test_s3_sources.py::test_fresh_credentials_that_the_store_does_not_know_yet_are_waited_for",
        "StorageError",
    ),
    Bug(
        "links_below_the_root_are_followed",
        (
            Edit(
                "LocalRoot.reading",
                "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK",
                "os.O_RDONLY | os.O_NONBLOCK",
            ),
        ),
        f"{_TESTS}/test_local.py::test_nothing_outside_the_root_and_no_special_file_is_read[link]",
        "DID NOT RAISE",
    ),
    Bug(
        "the_lock_of_a_folder_forgets_who_was_there",
        (
            Edit(
                "LocalWriter._alone",
                "            if seen > self._attempt.claim_version:",
                "            if False:",
            ),
        ),
        f"{_TESTS}/test_fencing.py::test_in_a_folder_the_older_attempt_is_refused_from_the_newer_ones_first_word",
        "DID NOT RAISE",
    ),
    Bug(
        "a_failed_attempt_deletes_what_another_has_put",
        (
            Edit(
                "S3Writer.delete",
                "                if await self._current_etag(key) != etag:\n",
                "                if False:\n",
            ),
        ),
        f"{_TESTS}/test_fencing.py::test_what_another_has_put_since_is_not_deleted",
        ("AssertionError", "StorageError"),
    ),
    Bug(
        "errors_show_the_whole_signed_url",
        (
            Edit(
                "SignedUrlReader._open",
                "_refusal(Stage.FETCHING, self._place, answer)",
                "_refusal(Stage.FETCHING, current.signed.url, answer)",
            ),
        ),
        f"{_TESTS}/test_signed_urls.py::test_no_error_shows_the_query_of_a_signed_url",
        "AssertionError",
    ),
    Bug(
        "the_query_of_a_signed_url_is_part_of_its_place",
        (
            Edit(
                "_read_source",
                "SignedUrlSource(url=without_query(source.url)",
                "SignedUrlSource(url=source.url",
            ),
        ),
        "tests/transcode/test_locations.py::test_no_secret_is_in_a_location_a_canonical_form_or_a_representation[urls]",
        "AssertionError",
    ),
    Bug(
        "fresh_credentials_replace_any_version",
        (Edit("replace_credentials.sql", " AND c.credential_version = :seen", " AND :seen > 0"),),
        f"{_CREDENTIALS}/test_update.py::test_of_many_at_once_one_wins[sqlite-False]",
        "AssertionError",
    ),
    Bug(
        "an_ended_job_takes_credentials",
        (
            Edit(
                "replace_credentials.sql",
                "AND j.state NOT IN ('completed', 'failed', 'dead_letter', 'cancelled')",
                "",
            ),
        ),
        f"{_CREDENTIALS}/test_update.py::test_a_job_that_ends_between_the_look_and_the_write_takes_nothing[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_rewrap_overwrites_a_refresh",
        (
            Edit(
                "rewrap_credentials.sql",
                " AND c.credential_version = :credential_version AND c.storage_creds_kek_id = :old_kek_id\n"
                "    AND c.storage_creds_dek_wrapped = :old_dek_wrapped",
                " AND :credential_version > 0 AND :old_kek_id <> '' AND :old_dek_wrapped IS NOT NULL",
            ),
        ),
        f"{_CREDENTIALS}/test_repository.py::test_a_rewrap_does_not_undo_a_refresh_that_came_between[sqlite]",
        ("AssertionError", "SealBroken"),
    ),
    Bug(
        "the_version_is_not_bound_to_the_seal",
        (
            Edit(
                "CredentialStore.unseal",
                "        context = credentials_context(stored.job_id, stored.requester_id, stored.version)",
                "        context = credentials_context(stored.job_id, stored.requester_id, 1)",
            ),
        ),
        f"{_CREDENTIALS}/test_repository.py::test_a_seal_that_was_moved_to_another_row_does_not_open[sqlite-version]",
        "DID NOT RAISE",
    ),
    Bug(
        "every_part_makes_a_refresh_of_its_own",
        (
            Edit(
                "CredentialProvider._start",
                "        if self._flight is None or self._flight.done():\n",
                "        if True:\n",
            ),
        ),
        f"{_CREDENTIALS}/test_provider.py::test_many_parts_that_are_refused_at_once_make_one_call[sqlite]",
        ("AssertionError", "StorageError", "Error"),
    ),
    Bug(
        "a_stale_worker_may_refresh",
        (
            Edit(
                "count_refresh.sql",
                " AND j.claim_version = :claim_version\n                AND j.lease_expires_at IS NOT NULL)",
                " AND :claim_version > 0)",
            ),
        ),
        f"{_CREDENTIALS}/test_provider.py::test_a_stale_worker_calls_nobody[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "kms_wraps_are_bound_to_nothing",
        (
            Edit(
                "kms.py:_context",
                '    return {"euterpe": hashlib.sha256(bound).hexdigest()}',
                '    return {"euterpe": bound[:4].hex()}',
            ),
            Edit(
                "unseal",
                'AESGCM(dek).decrypt(nonce, ciphertext, context.associated_data("blob", ENVELOPE_VERSION))',
                'AESGCM(dek).decrypt(nonce, ciphertext, SealContext("storage-credentials", '
                '("job", "requester", "1")).associated_data("blob", ENVELOPE_VERSION))',
            ),
        ),
        f"{_CREDENTIALS}/test_kms.py::test_what_kms_wrapped_opens_in_its_own_context_only",
        "DID NOT RAISE",
    ),
)
