"""Bugs about steering jobs: completions in a handler's own transaction, cancels, rates, crons, processes."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

COMPLETING = "tests/caller/test_completing.py"
CANCELLING = "tests/worker/test_cancelling.py"
RATES = "tests/conformance/test_rates.py"
JOINING = "tests/caller/test_joining.py"
CRONS = "tests/queue/test_crons.py"
OWN = "tests/worker/test_own_transactions.py"

CONTROL_BUGS = (
    Bug(
        "a_stale_attempt_may_commit_what_its_handler_wrote",
        (Edit("Joined.calls", "            if isinstance(error, StaleLease):", "            if False:"),),
        f"{COMPLETING}::test_a_stale_attempt_cannot_commit_what_its_handler_wrote[psycopg]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_return_is_taken_for_a_commit",
        (
            Edit(
                "HandlerCompletions.outcome_of",
                "if await self._is_committed(claim):",
                "if isinstance(outcome, Success):",
            ),
        ),
        f"{OWN}::test_what_was_not_committed_is_settled_the_ordinary_way[sqlite]",
        ("2", "not awaited", "TimeoutError"),
    ),
    Bug(
        "a_worker_looks_at_its_leases_for_every_cancel",
        (Edit("CancelWatch.wake", "self._checked_at + PAUSE_S)", "self._checked_at)"),),
        f"{CANCELLING}::test_a_worker_of_the_same_process_hears_of_cancels_at_once_and_looks_once_for_many[sqlite]",
        "len(looks)",
    ),
    Bug(
        "a_newcomer_takes_the_token_of_who_waits",
        (
            Edit(
                "key_ahead.sql",
                "ORDER BY a.is_passed, a.priority, a.seq)",
                "ORDER BY a.is_passed, a.priority, a.seq DESC)",
            ),
        ),
        f"{RATES}::test_a_newcomer_does_not_pass_who_waits_but_an_urgent_one_does[postgres]",
        "assert",
    ),
    Bug(
        "a_job_that_is_kept_starts_before_the_submission_is_committed",
        (Edit("sql/submitting/unique.py:_kept", '_look("get_jobs_for_update", job_id)', '_look("get_jobs", job_id)'),),
        f"{JOINING}::test_a_job_that_is_kept_for_its_unique_key_does_not_start_before_the_commit[psycopg]",
        "assert",
    ),
    Bug(
        "a_key_that_is_taken_anew_during_a_sweep_is_forgotten",
        (
            Edit(
                "forget_unique.sql",
                "j.completed_at IS NULL)",
                "j.completed_at IS NULL AND u.key IS NULL)",
            ),
        ),
        "tests/faults/test_unique_keys.py::test_a_key_that_is_taken_anew_during_a_sweep_is_not_forgotten",
        "assert 1 == 0",
    ),
    Bug(
        "a_cron_that_middleware_refuses_stops_the_clock",
        (
            Edit(
                "submit_tick",
                "except Exception as error:  # noqa: BLE001  # middleware may",
                "except EuterpeError as error:  # middleware may",
            ),
        ),
        "tests/queue/test_schedule.py::test_a_cron_that_is_refused_holds_up_no_other_and_does_not_stop_the_clock[user]",
        "no tenant",
    ),
    Bug(
        "a_resumed_cron_makes_up_for_its_pause",
        (Edit("CronTimes.apply", "if self.is_paused and not row.paused:", "if False:"),),
        f"{CRONS}::test_a_cron_is_paused_edited_and_resumed_while_workers_run[sqlite]",
        "03:04:00",
    ),
)
