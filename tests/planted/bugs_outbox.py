"""Bugs in what the control plane tells and hands out, in what the command line prints, and in the outbox's batches."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_PREFETCHING = "tests/outbox/test_prefetching.py"
_CHANGED = "tests/conformance/test_callback_completions.py::test_what_changed_while_a_job_ran_is_told_at_its_end"

OUTBOX_BUGS = (
    Bug(
        "a_checkpoint_that_is_no_json_spoils_the_answer_over_http",
        (Edit("columns_not_json", '        found.append("checkpoint")\n', "        pass\n"),),
        "tests/conformance/test_unprocessable_rows.py"
        "::test_a_checkpoint_that_is_no_json_does_not_spoil_an_answer_over_http[sqlite-claim-j{]",
        "",
    ),
    Bug(
        "a_control_plane_is_silent_about_failures_over_http",
        (
            Edit(
                "WorkerRoutes._finish",
                "        _log_failures(reports, replies, self._spans.end(reports, replies))\n",
                "",
            ),
        ),
        "tests/cli/test_telemetry.py::test_a_control_plane_tells_each_failure_that_a_worker_over_http_reports_once",
        "never: 'an attempt failed for good'",
    ),
    Bug(
        "a_note_on_stderr_draws_on_the_terminal",
        (Edit("note", "click.echo(printable(line), err=True)", "click.echo(line, err=True)"),),
        "tests/cli/test_appearance.py::test_a_pipe_gets_stored_text_as_escapes_too_unless_it_asks_for_json",
        "jobs",
    ),
    Bug(
        "a_line_on_stdout_draws_on_the_terminal",
        (Edit("print_line", "click.echo(printable(line))", "click.echo(line)"),),
        "tests/cli/test_appearance.py::test_stored_text_draws_on_no_terminal_whichever_command_shows_it",
        "drew",
    ),
    Bug(
        "a_libsql_commit_says_nothing_after_a_failed_undo",
        (
            Edit(
                "LibsqlJoined.break_connection",
                "            for sql in UNCOMMITTABLE:\n",
                "            for sql in ():\n",
            ),
        ),
        "tests/caller/test_cancelled_submits.py"
        "::test_a_libsql_commit_after_a_failed_undo_raises_until_the_caller_rolls_back",
        "DID NOT RAISE",
    ),
    Bug(
        "a_batch_is_no_larger_than_the_free_slots",
        (
            Edit(
                "Dispatcher._run_once",
                "max(1, self._batch - len(self._prefetched))",
                "max(1, min(self._free, self._batch - len(self._prefetched)))",
            ),
        ),
        "tests/outbox/test_outbox_keys.py::test_a_claim_takes_ten_events_unless_told_otherwise",
        "{5} == {10}",
    ),
    Bug(
        "a_stopping_dispatcher_keeps_what_waits_for_a_slot",
        (
            Edit(
                "Dispatcher.stop",
                "        self._stopping = True\n        self._give_back(self._prefetched.beyond(0))\n",
                "        self._stopping = True\n",
            ),
        ),
        f"{_PREFETCHING}::test_a_stopping_dispatcher_gives_back_at_once_what_waits_for_a_slot",
        "assert not <euterpe.webhook.prefetched.Prefetched",
    ),
    Bug(
        "what_waits_for_a_slot_waits_for_ever",
        (Edit("Dispatcher._run_once", "        self._give_back(self._prefetched.overdue())\n", ""),),
        f"{_PREFETCHING}::test_what_finds_no_slot_in_time_is_given_back_uncharged_and_sent_once",
        "TimeoutError",
    ),
    Bug(
        "a_newcomer_waits_for_a_batch_that_was_claimed_earlier",
        (Edit("Dispatcher._send", "before_a_claim=self._should_claim", "before_a_claim=False"),),
        f"{_PREFETCHING}::test_a_newcomer_gets_the_next_free_slot_before_a_batch_that_was_claimed_earlier",
        "assert (0, 6) == ",
    ),
    Bug(
        "the_key_of_a_batch_follows_its_first_job_alone",
        (
            Edit(
                "sqlite/batch_lives.sql",
                "SELECT 1\nFROM json_each(",
                "SELECT 1\nFROM json_each('[]'), json_each(",
            ),
        ),
        "tests/conformance/test_idempotency_windows.py"
        "::test_the_key_of_a_batch_is_held_until_a_window_after_the_last_of_its_jobs[sqlite]",
        "the second job of the batch still lives",
    ),
    Bug(
        "an_update_is_lost_beside_a_claim",
        (
            Edit(
                "postgres/update_metadata.sql",
                "correlation_id = :correlation_id",
                "correlation_id = j.correlation_id",
            ),
        ),
        "tests/interleavings/test_interleavings.py"
        "::test_any_two_programs_keep_every_promise_in_any_order_of_their_statements[update_waiting]",
        "update_waiting was accepted",
    ),
    Bug(
        "an_event_has_the_id_of_another_job",
        (Edit("event_of_many", "msgspec.structs.replace(job, id=_JOB_ID)", "job"),),
        "tests/conformance/test_callback_completions.py"
        "::test_jobs_that_end_alike_are_told_of_as_their_rows_are[sqlite-plain-alone]",
        "AssertionError",
    ),
    Bug(
        "events_of_jobs_that_are_not_alike_are_made_as_one",
        (Edit("told_of", ' "tags_json",\n', "\n"),),
        "tests/model/test_uniform_events.py::test_jobs_that_are_told_of_alike_have_the_same_event[tags_json]",
        "AssertionError",
    ),
    Bug(
        "the_results_of_jobs_that_end_together_are_told_as_one",
        (Edit("told_of", '"expires_at", "result", "error"', '"expires_at", "error"'),),
        "tests/conformance/test_callback_completions.py::test_every_event_has_the_result_of_its_own_job[postgres]",
        "AssertionError",
    ),
    Bug(
        "on_sqlite_an_event_tells_what_was_claimed_and_not_what_was_changed_since",
        (Edit("complete_with_callbacks.sql", "j.tags IS :tags", "(j.tags IS :tags OR true)"),),
        f"{_CHANGED}[sqlite-_is_tagged]",
        "AssertionError",
    ),
    Bug(
        "on_sqlite_an_event_tells_the_heartbeat_that_was_claimed",
        (Edit("complete_with_callbacks.sql", "j.heartbeat_at = j.started_at AND ", ""),),
        f"{_CHANGED}[sqlite-_beats]",
        "AssertionError",
    ),
    Bug(
        "on_sqlite_an_event_tells_no_progress",
        (Edit("complete_with_callbacks.sql", "j.progress IS NULL AND ", ""),),
        f"{_CHANGED}[sqlite-_reports_progress]",
        "AssertionError",
    ),
    Bug(
        "on_sqlite_a_stale_end_is_told_beside_others",
        (
            Edit(
                "complete_with_callbacks",
                "    if written != with_callbacks.count:\n        raise RowsSayMore\n",
                "",
            ),
        ),
        "tests/conformance/test_callback_completions.py::test_a_stale_end_among_others_is_not_told[sqlite]",
        "AssertionError",
    ),
    Bug(
        "on_sqlite_the_event_of_a_completion_is_not_on_the_page_of_its_job",
        (Edit("sqlite/events_of_job.sql", "j.completed_at", "j.started_at"),),
        "tests/conformance/test_callback_completions.py"
        "::test_the_page_of_a_job_has_all_its_events_and_none_of_others_that_ended_with_it[sqlite]",
        "AssertionError",
    ),
    Bug(
        "on_sqlite_a_completion_is_told_before_what_came_before_it",
        (Edit("sqlite/next_events.sql", "type <> 'job.completed'", "type = 'job.completed'"),),
        "tests/conformance/test_outbox_delivery.py::test_of_one_job_only_the_first_undelivered_event_is_given_out[sqlite]",
        "ValueError",
    ),
)
