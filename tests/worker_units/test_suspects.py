"""When suspects of a lost worker may start, with a clock in the hand."""

from __future__ import annotations

from typing import cast

import msgspec

from euterpe.model.claims.outcome import Outcome, Success
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.claiming.suspects import (
    FIRST_WIDTH,
    HELD_LIMIT,
    LARGEST_WIDTH,
    PATIENT_CLAIMS,
    TRIAL_S,
    SuspectTurns,
    Turn,
)
from tests.model.samples import a_job


class Run(msgspec.Struct, eq=False):
    """As much of an attempt as is looked at."""

    claim: Claim
    started: float
    outcome: Outcome | None = None


class Desk:
    """A worker that asks for every job that it has claimed."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.running: set[AttemptRun] = set()
        self.turns = SuspectTurns(self.running, lambda: self.now)

    def asks(self, job: JobRow, unwritten: int = 0, held: int = 0) -> Turn:
        return self.turns.turn_of(job, unwritten, held)

    def starts(self, job: JobRow) -> AttemptRun:
        run = cast(AttemptRun, Run(Claim(job, Lease(job.id, 1, 0)), self.now))
        self.turns.began(run)
        self.running.add(run)
        return run

    def ends(self, run: AttemptRun) -> None:
        run.outcome = Success()
        self.running.discard(run)
        self.turns.ended(run)

    def waits(self, seconds: float) -> None:
        self.now += seconds
        self.turns.look()


def suspect(name: str, lost: int = 1, max_attempts: int = 4, given_back: int = 0) -> JobRow:
    error = f'{{"code": "lost_lease", "lost_attempts": "{lost}", "unfit_claims": "{given_back}"}}'
    return a_job(id=name, error=error, attempt_count=lost + 1, max_attempts=max_attempts)


def other(max_attempts: int = 3) -> JobRow:
    return a_job(max_attempts=max_attempts)


def test_suspects_start_a_few_at_a_time_and_one_more_for_each_that_kills_nothing() -> None:
    desk = Desk()
    assert desk.turns.is_quiet
    runs = []
    for n in range(FIRST_WIDTH):
        assert desk.asks(suspect(f"s{n}")) is Turn.NOW
        runs.append(desk.starts(suspect(f"s{n}")))
    assert desk.asks(suspect("next")) is Turn.WAIT
    assert desk.asks(suspect("next"), held=HELD_LIMIT) is Turn.LATER, "the others wait in the database"
    assert desk.asks(other()) is Turn.NOW, "other jobs go on"
    desk.ends(runs[0])
    for n in range(2):
        assert desk.asks(suspect(f"t{n}")) is Turn.NOW
        desk.starts(suspect(f"t{n}"))
    assert desk.asks(suspect("next")) is Turn.WAIT


def test_suspects_that_have_run_for_a_while_make_room_for_others() -> None:
    desk = Desk()
    started = 0
    for _ in range(10):
        while desk.asks(suspect("s")) is Turn.NOW:
            desk.starts(suspect("s"))
            started += 1
        desk.waits(TRIAL_S)
    assert started > 5 * FIRST_WIDTH
    assert desk.turns._width == LARGEST_WIDTH


def test_a_suspect_that_lost_twice_starts_only_when_nothing_else_runs_and_others_wait() -> None:
    desk = Desk()
    neighbour = desk.starts(other())
    twice = suspect("twice", lost=2)
    assert desk.asks(twice) is Turn.WAIT
    assert desk.turns.holds_others
    assert desk.asks(other()) is Turn.WAIT
    assert desk.asks(suspect("once")) is Turn.WAIT
    assert desk.asks(suspect("another", lost=2)) is Turn.LATER, "one at a time"
    desk.ends(neighbour)
    assert desk.asks(twice, unwritten=1) is Turn.WAIT, "what is over and not yet written would be lost, too"
    assert desk.asks(twice) is Turn.NOW
    run = desk.starts(twice)
    assert desk.asks(other()) is Turn.WAIT
    assert desk.asks(suspect("another", lost=2)) is Turn.LATER
    desk.ends(run)
    assert desk.asks(other()) is Turn.NOW
    assert desk.turns.is_quiet


def test_a_suspect_that_cannot_afford_another_loss_starts_alone_after_the_first() -> None:
    desk = Desk()
    desk.starts(other())
    assert desk.asks(suspect("last", lost=1, max_attempts=2)) is Turn.WAIT
    assert desk.turns.holds_others


def test_others_start_again_beside_a_suspect_that_has_run_alone_for_a_while() -> None:
    desk = Desk()
    desk.starts(suspect("twice", lost=2))
    desk.waits(TRIAL_S - 1)
    assert desk.turns.holds_others
    desk.waits(1)
    assert not desk.turns.holds_others
    assert desk.asks(other()) is Turn.NOW


def test_neighbours_that_do_not_end_are_waited_for_no_longer_than_a_trial() -> None:
    desk = Desk()
    desk.starts(other())
    assert desk.asks(suspect("twice", lost=2)) is Turn.WAIT
    desk.waits(TRIAL_S)
    assert desk.asks(suspect("twice", lost=2)) is Turn.NOW


def test_a_suspect_is_given_back_while_the_database_takes_no_outcomes() -> None:
    desk = Desk()
    assert desk.asks(suspect("twice", lost=2), unwritten=3) is Turn.WAIT
    desk.waits(2 * TRIAL_S)
    assert desk.asks(suspect("twice", lost=2), unwritten=3) is Turn.LATER
    assert not desk.turns.holds_others


def test_others_get_a_turn_as_long_as_they_have_waited() -> None:
    desk = Desk()
    assert desk.asks(suspect("first", lost=2)) is Turn.NOW
    run = desk.starts(suspect("first", lost=2))
    desk.waits(TRIAL_S)
    desk.ends(run)
    assert desk.asks(suspect("second", lost=2)) is Turn.LATER
    assert desk.asks(other()) is Turn.NOW
    desk.waits(TRIAL_S)
    assert desk.asks(suspect("second", lost=2)) is Turn.NOW


def test_a_job_that_cannot_afford_a_loss_does_not_start_beside_a_suspect() -> None:
    desk = Desk()
    run = desk.starts(suspect("once"))
    assert desk.asks(other(max_attempts=1)) is Turn.LATER
    assert desk.asks(other()) is Turn.NOW
    desk.ends(run)
    assert desk.asks(other(max_attempts=1)) is Turn.NOW


def test_a_suspect_waits_for_neighbours_that_cannot_afford_a_loss_until_it_was_given_back_often() -> None:
    desk = Desk()
    fragile = desk.starts(other(max_attempts=1))
    assert desk.asks(suspect("once")) is Turn.LATER
    assert desk.asks(suspect("once", given_back=PATIENT_CLAIMS)) is Turn.NOW
    desk.ends(fragile)
    assert desk.asks(suspect("once")) is Turn.LATER, "its outcome is not yet written"
    desk.turns.written([fragile])
    assert desk.asks(suspect("once")) is Turn.NOW
