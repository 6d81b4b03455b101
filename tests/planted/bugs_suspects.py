"""Bugs in how suspects of a lost worker are told apart (ADR 018)."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

UNITS = "tests/worker_units/test_suspects.py"
STORES = "tests/conformance/test_suspects.py"
WORKERS = "tests/worker/test_suspects.py"

SUSPECT_BUGS = (
    Bug(
        "a_worker_does_not_ask_whether_a_suspect_may_start",
        (
            Edit(
                "RunningAttempts.start",
                "        if claim.job.error is not None or not self.turns.is_quiet:\n",
                "        if False:\n",
            ),
        ),
        f"{WORKERS}::test_suspects_that_lost_two_workers_run_one_at_a_time_in_a_worker[sqlite]",
        "== [1, 1, 1]",
    ),
    Bug(
        "lost_attempts_are_not_counted",
        (Edit("_settle_failure", "{LOST_ATTEMPTS: lost, REFUNDED_LOSSES: refunded}", "{}"),),
        f"{STORES}::test_a_job_that_always_loses_its_worker_is_dead_after_exactly_its_attempts[sqlite]",
        "== (2, 1)",
    ),
    Bug(
        "lost_attempts_are_given_back_with_the_next_loss",
        (Edit("_settle_failure", "0 if is_lost else job.lost_attempts - job.refunded_losses", "job.lost_attempts"),),
        f"{STORES}::test_a_job_that_always_loses_its_worker_is_dead_after_exactly_its_attempts[sqlite]",
        "== (3, 2)",
    ),
    Bug(
        "a_failure_of_its_own_does_not_clear_a_suspect",
        (Edit("_settle_failure", "0 if is_lost else job.lost_attempts - job.refunded_losses", "0"),),
        f"{STORES}::test_a_failure_of_its_own_gives_the_lost_attempts_back[sqlite]",
        "State.DEAD_LETTER",
    ),
    Bug(
        "the_first_loss_on_its_last_attempt_is_the_end_of_a_job_that_only_failed",
        (Edit("_settle_failure", "            given_back = refunded = 1\n", "            pass\n"),),
        f"{STORES}::test_a_job_that_loses_its_worker_on_its_last_attempt_is_tried_once_more[sqlite]",
        "State.RETRYING",
    ),
    Bug(
        "a_loss_is_given_back_twice",
        (
            Edit(
                "_settle_failure",
                "0 if is_lost else job.lost_attempts - job.refunded_losses",
                "0 if is_lost else job.lost_attempts",
            ),
        ),
        f"{STORES}::test_a_job_that_loses_its_worker_on_its_last_attempt_is_tried_once_more[sqlite]",
        "State.DEAD_LETTER",
    ),
    Bug(
        "redis_lists_give_one_attempt_back_whatever_is_said",
        (
            Edit(
                "turn.lua",
                "tonumber(job[1]) - tonumber(r.refund)",
                "tonumber(job[1]) - 1",
            ),
        ),
        f"{STORES}::test_a_failure_of_its_own_gives_the_lost_attempts_back[redis lists]",
        "RETRYING",
    ),
    Bug(
        "a_suspect_that_is_given_back_is_none_any_more",
        (
            Edit(
                "_left_to_others",
                "{UNFIT_CLAIMS: claims, LOST_ATTEMPTS: lost, REFUNDED_LOSSES: refunded}",
                "{UNFIT_CLAIMS: claims}",
            ),
        ),
        f"{STORES}::test_a_suspect_that_is_given_back_stays_a_suspect_and_pays_nothing[sqlite]",
        "== (2, 1, ",
    ),
    Bug(
        "any_number_of_suspects_starts_at_once",
        (Edit("SuspectTurns.turn_of", "and self._on_trial() < self._width", ""),),
        f"{UNITS}::test_suspects_start_a_few_at_a_time_and_one_more_for_each_that_kills_nothing",
        "Turn.WAIT",
    ),
    Bug(
        "a_suspect_that_lost_twice_starts_beside_others",
        (
            Edit(
                "SuspectTurns._turn_alone",
                "        if not unwritten and all(now - attempt.started >= TRIAL_S for attempt in self._running):\n",
                "        if not unwritten:\n",
            ),
        ),
        f"{UNITS}::test_a_suspect_that_lost_twice_starts_only_when_nothing_else_runs_and_others_wait",
        "Turn.WAIT",
    ),
    Bug(
        "a_suspect_starts_alone_before_its_neighbours_outcomes_are_written",
        (Edit("SuspectTurns._turn_alone", "if not unwritten and all(", "if all("),),
        f"{UNITS}::test_a_suspect_that_lost_twice_starts_only_when_nothing_else_runs_and_others_wait",
        "would be lost, too",
    ),
    Bug(
        "others_start_beside_a_suspect_that_is_to_run_alone",
        (
            Edit(
                "SuspectTurns.holds_others",
                "        return self._clock() - self._alone.started < TRIAL_S\n",
                "        return False\n",
            ),
        ),
        f"{UNITS}::test_a_suspect_that_lost_twice_starts_only_when_nothing_else_runs_and_others_wait",
        "Turn.WAIT",
    ),
    Bug(
        "others_wait_for_as_long_as_a_lone_suspect_runs",
        (
            Edit(
                "SuspectTurns.holds_others",
                "        return self._clock() - self._alone.started < TRIAL_S\n",
                "        return True\n",
            ),
        ),
        f"{UNITS}::test_others_start_again_beside_a_suspect_that_has_run_alone_for_a_while",
        "holds_others",
    ),
    Bug(
        "suspects_that_run_alone_follow_each_other_without_a_turn_for_others",
        (Edit("SuspectTurns._hold_over", "        if self._held_others_s >= FAIR_TURN_S:\n", "        if False:\n"),),
        f"{UNITS}::test_others_get_a_turn_as_long_as_they_have_waited",
        "Turn.LATER",
    ),
    Bug(
        "a_job_with_one_attempt_starts_beside_a_suspect",
        (Edit("SuspectTurns.turn_of", "Turn.LATER if is_fragile and self._on_trial() else Turn.NOW", "Turn.NOW"),),
        f"{UNITS}::test_a_job_that_cannot_afford_a_loss_does_not_start_beside_a_suspect",
        "Turn.LATER",
    ),
    Bug(
        "a_suspect_starts_beside_a_job_with_one_attempt",
        (
            Edit(
                "SuspectTurns.turn_of",
                "        if self.fragile and not is_patient:\n            return Turn.LATER\n        if not self.holds",
                "        if not self.holds",
            ),
        ),
        f"{UNITS}::test_a_suspect_waits_for_neighbours_that_cannot_afford_a_loss_until_it_was_given_back_often",
        "Turn.LATER",
    ),
    Bug(
        "a_worker_over_http_is_not_told_of_lost_attempts",
        (
            Edit(
                "_fields",
                '        fields["lost_attempts"], fields["unfit_claims"] = job.lost_attempts, job.times_left\n',
                "        pass\n",
            ),
        ),
        f"{STORES}::test_a_suspect_that_is_given_back_stays_a_suspect_and_pays_nothing[http over sqlite]",
        "== (2, 1, ",
    ),
)
