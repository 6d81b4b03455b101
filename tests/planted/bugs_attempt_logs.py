"""Bugs in what is kept of handlers' log lines, and in what a bulk replay tells of the jobs that it takes along."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_LOGS = "tests/conformance/test_attempt_logs.py"
_BATCH = f"{_LOGS}::test_a_batch_of_quiet_and_talking_jobs_keeps_the_lines_of_those_that_were_settled[sqlite]"

ATTEMPT_LOG_BUGS = (
    Bug(
        "completed_jobs_take_the_short_way_and_lose_their_lines",
        (Edit("simple_completions", "or report.log is not None", ""),),
        _BATCH,
        "['here']",
    ),
    Bug(
        "lines_of_a_stale_attempt_are_kept",
        (Edit("keep_logs", " if (s.job_id, s.claim_version) in accepted]", " if accepted]"),),
        _BATCH,
        "AttemptLog",
    ),
    Bug(
        "secrets_stay_in_kept_lines",
        (Edit("AttemptLines.emit", "hide_secrets(_text_of(record))", "_text_of(record)"),),
        "tests/worker/test_attempt_logs.py"
        "::test_lines_of_coroutines_and_threads_are_kept_with_their_attempt_alone[sqlite]",
        "abc.def",
    ),
    Bug(
        "jobs_that_come_along_are_not_told",
        (Edit("count_with_dependents", "more += len(ended)", "more += 0"),),
        "tests/conformance/test_bulk_operations.py"
        "::test_what_ended_because_of_a_replayed_job_runs_again_behind_it_though_it_does_not_match[sqlite-replay]",
        "dependents=0",
    ),
)
