"""Bugs that show only when a caller is cut off in the middle."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

STORE = "tests/cancellation/test_store.py"
OPENING = "tests/cancellation/test_opening.py"
CUT_OFF = f"{STORE}::test_an_operation_that_is_cut_off_takes_nothing_else_along[postgres-waiting-submit_with_a_key]"

CANCELLATION_BUGS = (
    Bug(
        "a_connection_is_used_again_while_its_begin_is_on_its_way",
        (
            Edit(
                "BorrowedConnection.__aexit__",
                "no longer counts.\n            self._connections.recover(self._connection)",
                "no longer counts.\n            self._connections.release(self._connection)",
            ),
        ),
        # Several transactions: in any one of them the server may cancel BEGIN in time.
        f"{STORE}::test_an_operation_that_is_cut_off_takes_nothing_else_along[postgres-waiting-tidy]",
        "acknowledged jobs are lost",
    ),
    Bug(
        "a_connection_that_was_cut_off_is_not_rolled_back",
        (
            Edit(
                "_make_idle",
                'if connection.is_in_transaction():\n            await connection.execute("ROLLBACK")',
                "if connection.is_in_transaction():\n            pass",
            ),
            Edit(
                "Connections.release",
                "if not connection.is_closed() and (self._is_closed or connection.is_in_transaction()):",
                "if self._is_closed:",
            ),
        ),
        CUT_OFF,
        ("acknowledged jobs are lost", "InFailedSQLTransactionError", "there is already a transaction"),
    ),
    Bug(
        "a_connection_that_was_cut_off_never_comes_back",
        (Edit("Connections", "task.add_done_callback(done)\n\n    def _take", "\n    def _take"),),
        CUT_OFF,
        ("TimeoutError", "Timeout"),
    ),
    Bug(
        "the_isolation_is_left_to_the_database",
        (Edit("SETTINGS", '    "default_transaction_isolation": "read committed",\n', ""),),
        "tests/faults/test_database_defaults.py::test_hostile_defaults_change_nothing[DATABASE]",
        "repeatable read",
    ),
    Bug(
        "a_frozen_worker_with_a_short_lease_keeps_its_locks_for_ten_seconds",
        (Edit("SessionPlan.expect_leases_of", "max(shortest_s, min(longest_s, seconds / 2))", "longest_s"),),
        "tests/faults/test_postgres_outages.py"
        "::test_a_process_frozen_inside_a_transaction_does_not_keep_its_jobs_for_ever",
        "its locks outlived its lease",
    ),
    Bug(
        "a_statement_that_is_never_answered_keeps_a_worker_that_leaves",
        (
            Edit(
                "WorkerLoop.stop_at_once",
                "            self._force_exit_timer = self._loop.call_later(WRITE_S, self._force_exit)\n",
                "",
            ),
        ),
        "tests/worker/test_stopping_without_network.py"
        "::test_sigterm_in_a_dead_network_ends_the_worker_soon_after_its_grace_time[once]",
        ("the dead network kept it", "the worker ends"),
    ),
    Bug(
        "opening_a_file_waits_for_ever_for_an_error_that_is_not_sqlites",
        (
            Edit(
                "GroupCommitEngine._write_loop",
                "except Exception as error:  # noqa: BLE001  # whatever it was, `open`",
                "except library.failures as error:  # `open`",
            ),
        ),
        f"{OPENING}::test_an_error_that_no_driver_has_is_raised_by_open_on_sqlite",
        "TimeoutError",
    ),
)
