"""A sweeper takes leases back only after living workers had time to renew them."""

from __future__ import annotations

import pytest

from euterpe.model.claims.heartbeat_turns import LONGEST_US, UNSETTLED_BREAKS, HeartbeatTurns

SECOND = 1_000_000
LEASE = 60 * SECOND


class Sweeping:
    """A sweeper that writes once a second on a clock of its own."""

    def __init__(self) -> None:
        self.now_us = 5 * SECOND
        self.turns = HeartbeatTurns(lambda: self.now_us, gap_us=20 * SECOND, lease_us=LEASE)

    def writes_for(self, seconds: int) -> None:
        for _ in range(seconds):
            self.turns.wrote()
            self.now_us += SECOND
        self.turns.wrote()


@pytest.fixture
def sweeping() -> Sweeping:
    return Sweeping()


def test_a_sweeper_that_has_not_written_yet_takes_nothing(sweeping: Sweeping) -> None:
    assert not sweeping.turns.had(LEASE)
    assert sweeping.turns.longest_us() == -1


def test_a_sweeper_that_starts_waits_for_half_of_a_lease(sweeping: Sweeping) -> None:
    sweeping.writes_for(29)
    assert not sweeping.turns.had(LEASE)
    sweeping.writes_for(1)
    assert sweeping.turns.had(LEASE)
    assert not sweeping.turns.had(LEASE + 1)


def test_a_write_that_failed_begins_a_new_wait(sweeping: Sweeping) -> None:
    sweeping.writes_for(100)
    sweeping.turns.failed()
    assert not sweeping.turns.had(LEASE)
    sweeping.turns.wrote()
    assert not sweeping.turns.had(LEASE)
    sweeping.writes_for(30)
    assert sweeping.turns.had(LEASE)


def test_a_long_time_without_a_write_begins_a_new_wait(sweeping: Sweeping) -> None:
    sweeping.writes_for(100)
    sweeping.now_us += 21 * SECOND
    assert sweeping.turns.longest_us() == -1
    sweeping.turns.wrote()
    assert not sweeping.turns.had(LEASE)


def test_a_short_lease_is_left_alone_after_a_wait_that_a_long_one_survives(sweeping: Sweeping) -> None:
    """The wait happens between the last write and the question, as a transaction waits for a lock."""
    sweeping.writes_for(100)
    sweeping.now_us += 10 * SECOND
    assert sweeping.turns.had(LEASE)
    assert not sweeping.turns.had(15 * SECOND)


def test_the_shortest_leases_are_taken_back_on_a_busy_machine_too(sweeping: Sweeping) -> None:
    sweeping.writes_for(100)
    sweeping.now_us += SECOND // 2
    assert sweeping.turns.had(1)


def test_a_sweeper_that_is_blocked_again_and_again_recovers_lost_jobs_at_last(sweeping: Sweeping) -> None:
    for _ in range(UNSETTLED_BREAKS):
        sweeping.writes_for(2)
        assert not sweeping.turns.had(LEASE)
        sweeping.now_us += 90 * SECOND
    sweeping.writes_for(2)
    assert sweeping.turns.longest_us() == LONGEST_US
    assert sweeping.turns.had(LEASE)


def test_breaks_with_quiet_time_between_them_are_not_counted_together(sweeping: Sweeping) -> None:
    for _ in range(2 * UNSETTLED_BREAKS):
        sweeping.writes_for(61)
        sweeping.now_us += 90 * SECOND
    sweeping.turns.wrote()
    assert not sweeping.turns.had(LEASE)
