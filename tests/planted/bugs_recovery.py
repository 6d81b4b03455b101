"""Bugs in when a lease counts as lost, and in what a recovery survives."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TURNS = "tests/model/test_heartbeat_turns.py"
_RECOVERY = "tests/conformance/test_recovery_turns.py"
_SWEEPER = "tests/worker_units/test_sweeper.py"
_OUTAGES = "tests/worker/test_outages_past_the_lease.py"
_HOUSEKEEPER = "tests/worker_units/test_housekeeper.py"

RECOVERY_BUGS = (
    Bug(
        "a_million_due_jobs_keep_lost_ones_waiting",
        (Edit("SqlSweeps.promote", "for _ in range(PROMOTED_AT_ONCE):", "while True:"),),
        f"{_SWEEPER}::test_a_crowd_that_falls_due_together_is_promoted_in_goes_of_a_bounded_size",
        "assert 12 == 10",
    ),
    Bug(
        "a_sweeper_recovers_as_soon_as_it_can_write_again",
        (Edit("Sweeper._recover", "self._sweeps.recover(self._turns)", "self._sweeps.recover()"),),
        f"{_OUTAGES}::test_sqlite_write_lock_past_the_lease_costs_no_living_worker_a_job[sqlite]",
        "a living worker lost a job",
    ),
    Bug(
        "a_write_that_failed_is_forgotten",
        (
            Edit(
                "HeartbeatTurns",
                "        self._is_broken = True\n\n    def longest",
                "        return\n\n    def longest",
            ),
        ),
        f"{_TURNS}::test_a_write_that_failed_begins_a_new_wait",
        "AssertionError",
    ),
    Bug(
        "a_sweeper_that_starts_does_not_wait",
        (
            Edit(
                "HeartbeatTurns.__init__",
                "self._since_us = self._wrote_us = clock_us()\n",
                "self._since_us = self._wrote_us = 0\n",
            ),
            Edit("HeartbeatTurns.wrote", "            self._since_us = now_us\n", ""),
        ),
        f"{_TURNS}::test_a_sweeper_that_starts_waits_for_half_of_a_lease",
        "AssertionError",
    ),
    Bug(
        "a_recovery_does_not_notice_that_it_waited_for_a_lock",
        (Edit("reclaim", "        if turns is None or turns.had(", "        if turns is None or True or turns.had("),),
        f"{_RECOVERY}::test_a_recovery_that_waited_for_a_lock_takes_nothing_back[sqlite]",
        "assert 1 == 0",
    ),
    Bug(
        "every_lease_waits_for_the_same_time",
        (
            Edit("sweep/expired_leases.sql", "<= :longest_us", "<= :longest_us + 100000000"),
            Edit("reclaim", "        if turns is None or turns.had(", "        if turns is None or True or turns.had("),
        ),
        f"{_RECOVERY}::test_every_lease_waits_for_half_of_its_own_length[sqlite]",
        "assert 2 == 1",
    ),
    Bug(
        "a_blocked_sweeper_never_recovers",
        (Edit("HeartbeatTurns.longest_us", "if self._breaks > UNSETTLED_BREAKS:", "if self._breaks < 0:"),),
        f"{_TURNS}::test_a_sweeper_that_is_blocked_again_and_again_recovers_lost_jobs_at_last",
        "AssertionError",
    ),
    Bug(
        "an_unknown_dependency_stops_the_recovery",
        (Edit("late_dependencies.py:_plan", "    except ValueError:\n", "    except KeyError:\n"),),
        "tests/caller/test_open_transactions.py::test_a_dependent_whose_kind_cannot_be_read_ends_alone[asyncpg]",
        "AssertionError",
    ),
    Bug(
        "a_failing_part_ends_the_recovery",
        (
            Edit(
                "SqlSweeps.recover",
                "                failures.append(error)\n",
                "                raise\n",
            ),
        ),
        f"{_SWEEPER}::test_a_part_of_a_recovery_that_fails_stops_no_other_part[end_lifetimes]",
        "ValueError",
    ),
    Bug(
        "a_failing_part_ends_the_pass",
        (Edit("Sweeper._guarded", "            failures.append(error)\n", "            raise\n"),),
        f"{_SWEEPER}::test_a_part_of_a_pass_that_fails_stops_no_other_part[promote]",
        "ValueError",
    ),
    Bug(
        "due_jobs_wait_for_housekeeping",
        (
            Edit(
                "Sweeper._pass",
                "        await self._guarded(self._promote, failures)\n",
                "        await self._housekeeper.tidy()\n        await self._guarded(self._promote, failures)\n",
            ),
        ),
        f"{_HOUSEKEEPER}::test_due_jobs_do_not_wait_for_housekeeping",
        "TimeoutError",
    ),
    Bug(
        "a_step_of_housekeeping_takes_as_long_as_it_likes",
        (
            Edit(
                "Housekeeper._work_off", "max(FEWEST, min(TIDY_LIMIT, round(", "max(TIDY_LIMIT, min(TIDY_LIMIT, round("
            ),
        ),
        f"{_HOUSEKEEPER}::test_a_step_that_takes_long_makes_the_next_one_smaller",
        "AssertionError",
    ),
    Bug(
        "a_chore_that_fails_ends_the_housekeeping",
        (Edit("Housekeeper.tidy", "                failed = True\n", "                raise\n"),),
        f"{_HOUSEKEEPER}::test_a_chore_that_fails_stops_no_other",
        "ValueError",
    ),
    Bug(
        "prune_goes_by_the_default_retention",
        (Edit("prune.py:prune", "        backend.store.sweeps.retention = retention\n", ""),),
        "tests/cli/test_prune.py::test_prune_removes_what_the_configuration_no_longer_keeps",
        "AssertionError",
    ),
    Bug(
        "overdue_jobs_are_not_told",
        (Edit("sweep.py:overdue", "max(longest_us, rows[0][0] or 0)", "max(longest_us, 0)"),),
        "tests/conformance/test_retention.py::test_housekeeping_says_how_long_the_oldest_ended_job_is_overdue[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_suspended_machine_begins_what_it_claimed_ahead",
        (
            Edit(
                "RunningAttempts.check_timeouts",
                "take_older_than(awake_or_not_s() - PATIENCE_S)",
                "take_older_than(now - PATIENCE_S)",
            ),
        ),
        "tests/worker/test_ready_buffer.py"
        "::test_what_waited_on_a_suspended_machine_goes_back_and_does_not_begin[sqlite]",
        "TimeoutError",
    ),
    Bug(
        "the_sweeper_does_not_count_the_time_in_suspend",
        (Edit("Sweeper.__init__", "round(awake_or_not_s() * 1e6)", "round(time.monotonic() * 1e6)"),),
        f"{_SWEEPER}::test_a_machine_that_was_suspended_takes_nothing_back_at_first",
        "AssertionError",
    ),
    Bug(
        "an_unreadable_operation_stops_the_others",
        (
            Edit(
                "sql/bulk/operations.py:_running",
                "        except msgspec.MsgspecError:\n",
                "        except KeyError:\n",
            ),
        ),
        "tests/conformance/test_bulk_operations.py::test_an_operation_that_cannot_be_read_ends_alone[sqlite]",
        ("ValidationError", "DecodeError"),
    ),
)
