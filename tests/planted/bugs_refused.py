"""Bugs about refused statements: errors taken for what they are not, and parts that die of them."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

WORKERS = "tests/refused/test_workers.py::test_no_job_that_succeeded_ends_failed_and_its_news_is_written"
PROGRAMS = "tests/refused/test_programs.py::test_a_refused_statement_leaves_nothing_half_done_and_is_told_as_what_it_is"

LOCKED = "tests/faults/test_locked_databases.py::test_every_submission_is_refused_in_its_own_time_and_nothing_is_stored"

REFUSAL_BUGS = (
    Bug(
        "a_submission_waits_out_anothers_patience_first",
        (
            Edit(
                "SubmitBatcher._write_group",
                "for waiting in group], group[0].deadline)",
                "for waiting in group], begun + 6.0)",
            ),
        ),
        f"{LOCKED}[sqlite]",
        "PATIENCE_S + SLACK_S",
    ),
    Bug(
        "a_lock_is_waited_for_until_nobody_knows_what_became_of_it",
        (Edit("SessionPlan._settings", '"lock_timeout": f"{LOCK_WAIT_S * 1000:.0f}ms"', '"lock_timeout": "0"'),),
        f"{LOCKED}[postgres]",
        ("it is known that nothing was stored", "PATIENCE_S + SLACK_S"),
    ),
    Bug(
        "a_lone_submit_waits_as_long_as_the_driver_may",
        (
            Edit(
                "PostgresEngine.write_one",
                "partial(self._single, make, patience_s)",
                "partial(self._single, make)",
            ),
        ),
        "tests/faults/test_postgres_outages.py"
        "::test_a_lone_submit_is_told_when_its_own_time_is_over_and_not_the_drivers",
        "15.0)",
    ),
    Bug(
        "a_lone_rejection_begins_anew_as_a_reader",
        (
            Edit(
                "GroupCommitEngine._commit_together",
                "return stop  # A lone one was rejected. Who came meanwhile begins anew, as a writer.",
                'session.run("BEGIN")',
            ),
        ),
        "tests/worker_units/test_joining_a_commit.py"
        "::test_who_comes_while_a_lone_one_is_rejected_is_a_writer_from_its_begin",
        "['wrote in between'] == ['kept out']",
    ),
    Bug(
        "a_lock_timeout_is_taken_for_bad_data",
        (
            Edit(
                "postgres/errors.py:DATA",
                'DATA: Final = frozenset({"22", "23"})',
                'DATA: Final = frozenset({"22", "23", "55"})',
            ),
        ),
        f"{WORKERS}[postgres-55P03]",
        "failed",
    ),
    Bug(
        "a_full_disk_is_taken_for_bad_data",
        (
            Edit(
                "library.py:DATA",
                '    18: "a value is too big",',
                '    13: "full",\n    18: "a value is too big",',
            ),
        ),
        f"{PROGRAMS}[sqlite-claims]",
        "FullError: DataRejected",
    ),
    Bug(
        "an_outage_is_logged_at_every_retry",
        (
            Edit(
                "Outage.pause_after",
                "        if self._since is None:\n            self._since =",
                "        if True:\n            self._since =",
            ),
        ),
        f"{WORKERS}[sqlite-BusyError]",
        "not at every retry",
    ),
    Bug(
        "the_writer_of_news_dies_of_a_foreign_error",
        (Edit("ProgressWriter._write_all", "except Exception as refused:", "except ValueError as refused:"),),
        "tests/worker_units/test_news.py"
        "::test_an_error_that_nobody_expected_is_raised_where_it_is_awaited_and_the_line_goes_on",
        ("CancelledError", "TimeoutError"),
    ),
    Bug(
        "a_refused_statement_is_committed_with_the_others",
        (
            Edit(
                "GroupCommitEngine._run",
                '                session.run("ROLLBACK")\n            else:',
                "                pass\n            else:",
            ),
        ),
        f"{PROGRAMS}[sqlite-submits_a_graph]",
        "something was written",
    ),
)
