"""Bugs in what an audit of every surface found: locks, deep payloads, slow readers, windows, quotas and links."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_HOLDERS = "tests/faults/test_lock_holders.py"
_DEEP = "tests/queue/test_deep_payloads.py"
_FOREIGN = "tests/server/test_foreign_transcodes.py"
_TRANSCODES = "tests/transcode/service/test_http.py"
_SIGN_IN = "tests/dashboard/test_sign_in.py"
_PAGES = "tests/server/test_large_pages.py"

AUDIT_BUGS = (
    Bug(
        "readyz_does_not_look_at_locks",
        (Edit("SqlStore.ping", "await self.engine.check_writable()", "await self.now_us()"),),
        f"{_HOLDERS}::test_readyz_names_the_holder_of_a_lock_until_it_goes[postgres]",
        "assert 200 == 503",
    ),
    Bug(
        "a_literal_of_a_blocking_query_is_shown",
        (Edit("first_words", "cut = LITERALS.search(query)", "cut = None"),),
        f"{_HOLDERS}::test_the_holder_of_a_single_row_is_named_and_leaves_the_process_ready",
        "hunter2",
    ),
    Bug(
        "a_wait_for_a_row_is_not_looked_at",
        (Edit("PostgresEngine._look_at_wait", "lock_holders(self.schema, pid))", "lock_holders(self.schema))"),),
        f"{_HOLDERS}::test_the_holder_of_a_single_row_is_named_and_leaves_the_process_ready",
        "Regex pattern did not match",
    ),
    Bug(
        "a_wait_for_the_file_is_not_remembered",
        (Edit("GroupCommitEngine._begin", "self._waits_since = self._waits_since or began", "pass"),),
        f"{_HOLDERS}::test_readyz_answers_while_another_write_waits_for_the_lock",
        "another process has held the write lock for",
    ),
    Bug(
        "a_deep_payload_of_a_call_is_accepted",
        (Edit("Definition.kind", 'check_depth("payload", payload)', "pass"),),
        f"{_DEEP}::test_a_deep_payload_is_refused_in_python",
        "DID NOT RAISE",
    ),
    Bug(
        "a_deep_payload_over_http_is_accepted",
        (
            Edit("decoding.py:_decoded", "if is_too_deep(bytes(raw)):", "if False:"),
            Edit("check", 'check_depth("payload", s.payload)', "pass"),
        ),
        f"{_DEEP}::test_a_deep_payload_is_refused_over_http",
        "At index 1 diff: 202 != 422",
    ),
    Bug(
        "a_deep_row_breaks_the_list",
        (
            Edit("readable.py:is_json", "if is_too_deep(stored):", "if False:"),
            Edit("readable.py:is_json", "UnicodeError, RecursionError):", "UnicodeError):"),
        ),
        f"{_DEEP}::test_a_row_that_cannot_be_read_is_shown_as_unreadable",
        "assert 500 == 200",
    ),
    Bug(
        "a_large_answer_gives_its_turn_back_unread",
        (Edit("Router.serve", "if not (isinstance(answer, Answer) and answer.is_large):", "if True:"),),
        f"{_PAGES}::test_answers_that_nobody_reads_do_not_fill_the_memory",
        "== (4, 56)",
    ),
    Bug(
        "a_line_about_an_attempt_has_no_span",
        (Edit("WorkerLoop._after_settle", "report_end(f, verdict, attempt.span_keys)", "report_end(f, verdict, {})"),),
        "tests/worker/test_spans.py::test_log_lines_about_an_attempt_carry_the_ids_of_its_span",
        "KeyError: 'trace_id'",
    ),
    Bug(
        "a_line_about_a_lost_job_has_no_claim_version",
        (Edit("_ended_in", 'claim_version=row[at["claim_version"]],', ""),),
        "tests/worker/test_spans.py::test_the_line_about_a_lost_workers_job_carries_its_claim_version[sqlite_url]",
        "KeyError: 'claim_version'",
    ),
    Bug(
        "a_password_among_the_extras_is_written",
        (Edit("_without_secrets", "if isinstance(name, str) and is_secret(name):", "if False:"),),
        "tests/observe/test_logs.py::test_secrets_among_the_extras_of_a_users_record_are_hidden[json]",
        "c4n4ry-s3cret",
    ),
    Bug(
        "the_configured_limit_of_payloads_does_not_reach_an_app",
        (Edit("apply_store_settings", "core_of(queue).payload_limit = store.payload_limit = config", "_ = config"),),
        "tests/service/test_retention.py::test_the_configured_limit_of_payloads_holds_for_an_app_too",
        "DID NOT RAISE",
    ),
    Bug(
        "a_worker_without_types_is_given_a_transcode",
        (Edit("asked_types.sql", " AND w.type <> 'transcode'", ""),),
        f"{_FOREIGN}::test_a_worker_without_types_is_never_given_a_transcode[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_transcode_completes_without_outputs",
        (Edit("lacks_outputs", "    if job.type != TRANSCODE:", "    if job.type != 'x':"),),
        f"{_FOREIGN}::test_a_transcode_cannot_be_completed_without_outputs[sqlite]",
        "KeyError: 'code'",
    ),
    Bug(
        "a_transcode_is_forged_by_the_route_of_jobs",
        (Edit("submissions.py:submission_of", "if body.type == TRANSCODE:", "if False:"),),
        f"{_FOREIGN}::test_a_transcode_is_not_submitted_past_its_own_route",
        "KeyError: 'pointer'",
    ),
    Bug(
        "a_prefix_reaches_the_staging_of_another_job",
        (Edit("_check_name", "part.lower() == STAGING for part", "part == '' for part"),),
        f"{_TRANSCODES}::test_a_place_that_is_none_is_refused_by_its_pointer",
        "assert 202 == 422",
    ),
    Bug(
        "a_retry_passes_by_the_quota",
        (Edit("JobRoutes.retry", "        await self._quotas.admit_again(self._store, job_id, whose)\n", ""),),
        "tests/server/test_quotas.py::test_jobs_that_run_again_count_like_new_ones[sqlite]",
        "quota_exceeded",
    ),
    Bug(
        "a_visitor_passes_by_the_rate_of_the_key",
        (
            Edit(
                "PageServer._visitor",
                "            self.take_request(visitor.key_prefix, visitor.requester_id)",
                "            pass",
            ),
        ),
        f"{_SIGN_IN}::test_a_visitor_has_the_rate_of_the_key",
        "[200, 200, 200, 200]",
    ),
    Bug(
        "a_key_has_sessions_without_number",
        (Edit("begin", "keep=SESSIONS_OF_A_KEY", "keep=1_000_000"),),
        f"{_SIGN_IN}::test_a_key_has_so_many_sessions_and_the_oldest_ends[sqlite]",
        "assert 200 == 303",
    ),
    Bug(
        "an_embedded_folder_of_another_user_is_used",
        (Edit("make_room", "status.st_uid not in (os.getuid(), 0)", "False"),),
        "tests/queue/test_database_file.py::test_an_embedded_folder_of_another_user_is_not_used",
        "DID NOT RAISE",
    ),
    Bug(
        "a_replay_is_not_marked_after_a_lost_commit",
        (
            Edit(
                "UnitCommits._resolve_unknown",
                "graph_replay.submit_again_and_mark(units, self._key_window_us())",
                "jobs_submit.submit_again(units, key_window_us=self._key_window_us())",
            ),
        ),
        "tests/faults/test_ambiguous_commits.py"
        "::test_a_replay_whose_commit_was_lost_is_marked_and_leaves_its_group[before]",
        "assert not [FailureGroup",
    ),
)
