"""Bugs about telemetry: ends that nobody counts or two count, wrong labels, configuration that nobody reads."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

ENDS = "tests/conformance/test_telling_of_ends.py"
PROCESSES = "tests/cli/test_telemetry.py"
WIRING = "tests/observe/test_wiring.py"

TELEMETRY_BUGS = (
    Bug(
        "what_a_sweep_ends_is_counted_by_nobody",
        (
            Edit(
                "SqlSweeps._all_told",
                "write_quietly(make, EndedBy.SWEEP)",
                "write_quietly(make, EndedBy.WORKER)",
            ),
        ),
        f"{ENDS}::test_an_end_without_a_report_is_counted_once[lost_for_the_last_time-sqlite]",
        "jobs_dead_letter_total",
    ),
    Bug(
        "dependents_that_end_are_counted_by_nobody",
        (Edit("collect_ended", '("dependents",) if by', "() if by"),),
        f"{ENDS}::test_dependents_that_end_with_a_report_are_counted_beside_it[postgres]",
        "jobs_dead_letter_total",
    ),
    Bug(
        "a_reported_attempt_is_counted_by_worker_and_store",
        (Edit("collect_ended", "if by is EndedBy.WORKER else", "if by is None else"),),
        f"{ENDS}::test_dependents_that_end_with_a_report_are_counted_beside_it[sqlite]",
        "jobs_failed_total",
    ),
    Bug(
        "a_dead_letter_of_an_operator_fails_the_job_again",
        (
            Edit(
                "_ended_in",
                'had_failed=contract.ends == "failed jobs",',
                "had_failed=False,",
            ),
        ),
        f"{ENDS}::test_an_end_without_a_report_is_counted_once[dead_lettered_by_an_operator-sqlite]",
        "jobs_failed_total",
    ),
    Bug(
        "a_cancel_counts_as_what_its_attempt_died_of",
        (Edit("Metrics.settled", "if state == State.CANCELLED:", "if state == State.COMPLETED:"),),
        f"{ENDS}::test_an_end_without_a_report_is_counted_once[lost_after_a_cancel-sqlite]",
        "system",
    ),
    Bug(
        "a_sweep_of_thousands_writes_thousands_of_lines",
        (Edit("log_ended", "ended_jobs[:LINES_AT_ONCE]", "ended_jobs"),),
        f"{ENDS}::test_of_many_jobs_that_end_in_one_sweep_a_few_get_lines_and_the_rest_a_number[sqlite]",
        "the job is tried again",
    ),
    Bug(
        "a_delivery_is_labelled_with_a_word_of_the_delivery_log",
        (Edit("policy.py:result_of", '        return "rejected"', "        return delivery.outcome"),),
        "tests/outbox/test_dispatcher.py"
        "::test_an_undeliverable_event_goes_to_the_dead_letter_and_can_be_sent_again[sqlite]",
        "refused",
    ),
    Bug(
        "an_empty_queue_has_no_length",
        (
            Edit(
                "Metrics.sample_queues",
                "                tally.length, tally.oldest_age_s = 0, 0.0\n",
                "                if tally.length is not None:\n"
                "                    tally.length, tally.oldest_age_s = 0, 0.0\n",
            ),
        ),
        "tests/observe/test_metrics.py::test_an_empty_queue_of_the_configuration_has_the_length_0",
        "queue_length",
    ),
    Bug(
        "a_role_that_sweeps_has_no_metrics_for_it",
        (Edit("run_role", "        core.store.telemetry = metrics\n", ""),),
        f"{PROCESSES}::test_every_role_counts_and_tells_what_it_sweeps[outbox]",
        "jobs_dead_letter_total",
    ),
    Bug(
        "deliveries_of_a_role_are_counted_by_nobody",
        (Edit("deliver", "secrets_of, settings, metrics\n", "secrets_of, settings\n"),),
        f"{PROCESSES}::test_a_whole_system_counts_and_tells_every_end",
        "outbox_dead_letter_total",
    ),
    Bug(
        "what_the_sweeps_of_a_users_worker_end_is_counted_by_nobody",
        (Edit("_counted_by", "    store.telemetry = telemetry\n", ""),),
        "tests/queue/test_work_telemetry.py::test_a_worker_in_a_users_process_counts_what_its_sweeps_end",
        "TimeoutError",
    ),
    Bug(
        "a_metric_has_no_caller",
        (
            Edit(
                "Sweeper._recover",
                "                self._telemetry.reclaimed(recovered.reclaimed)\n",
                "                pass\n",
            ),
        ),
        f"{WIRING}::test_every_metric_is_told_by_somebody_or_waits_for_a_part",
        "reclaimed",
    ),
    Bug(
        "a_key_of_the_configuration_is_read_by_nobody",
        (Edit("limits_of", "rate_burst=config.api.rate_burst", "rate_burst=100"),),
        f"{WIRING}::test_every_key_of_the_configuration_is_read_or_waits_for_a_part",
        "api.rate_burst",
    ),
    Bug(
        "a_log_key_is_allowed_that_nobody_uses",
        (Edit("ADDED_KEYS", '*("host", "port", "engine"),', '*("host", "port", "engine", "colour"),'),),
        f"{WIRING}::test_every_log_key_is_used_by_some_call",
        "colour",
    ),
    Bug(
        "a_control_plane_does_not_count_by_type",
        (Edit("_count_ends", "    record_ends(telemetry, ended)\n", ""),),
        "tests/server/test_worker_metrics.py::test_attempts_of_foreign_workers_are_counted_by_type_and_outcome[sqlite]",
        "assert {",
    ),
)
