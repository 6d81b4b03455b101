"""How much work a worker claims ahead: what lately ended in a moment, of types whose jobs are short."""

from __future__ import annotations

import pytest

from euterpe.model.job import Claim, Lease
from euterpe.worker.claiming.prefetch import (
    AHEAD_LIMIT,
    AHEAD_S,
    FEW_AHEAD,
    FEW_AHEAD_S,
    SHORT_S,
    WINDOW_S,
    Pace,
    ReadyBuffer,
    ReadyJob,
)
from tests.model.samples import a_job


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def end_for_a_second(pace: Pace, clock: Clock, per_s: int) -> None:
    for _ in range(100):
        clock.now += 0.01
        pace.ended(per_s // 100, [])


def test_it_is_what_ends_in_a_moment_at_the_rate_of_the_last_quarter_of_a_second(clock: Clock) -> None:
    pace = Pace(clock)
    assert pace.ahead() == 0
    end_for_a_second(pace, clock, 15_000)
    assert pace.ahead() == pytest.approx(15_000 * AHEAD_S, rel=0.05)
    clock.now += WINDOW_S + 0.01
    assert pace.ahead() == 0, "what ended long ago says nothing"


@pytest.mark.parametrize(("per_s", "ahead"), [(2000, 2000 * FEW_AHEAD_S), (8000, FEW_AHEAD)])
def test_where_few_end_in_a_moment_it_is_what_makes_an_exchange_worth_its_price(
    clock: Clock, per_s: int, ahead: float
) -> None:
    pace = Pace(clock)
    end_for_a_second(pace, clock, per_s)
    assert pace.ahead() == pytest.approx(ahead, rel=0.05)


def test_it_is_bounded(clock: Clock) -> None:
    pace = Pace(clock)
    pace.ended(1_000_000, [])
    assert pace.ahead() == AHEAD_LIMIT


def test_a_type_is_short_as_long_as_its_jobs_are(clock: Clock) -> None:
    pace = Pace(clock)
    pace.ended(2, [("quick", SHORT_S / 10), ("slow", 10 * SHORT_S)])
    assert pace.short_types == ("quick",)
    pace.ended(1, [("quick", 100 * SHORT_S)])
    assert not list(pace.short_types)


def test_the_most_urgent_is_next_and_the_oldest_among_those() -> None:
    buffer = ReadyBuffer()
    for claimed in ([(2, 5), (2, 8)], [(2, 3), (0, 9), (2, 4)]):
        buffer.add([ReadyJob(priority, seq, 0.0, 10 * seq, _claim(priority, seq)) for priority, seq in claimed])
    assert buffer.next().seq == 9
    assert [withdrawn.slot for withdrawn in buffer.withdraw({(_claim(2, 4).job.id, 1), ("no such job", 1)})] == [40]
    assert [buffer.next().seq for _ in range(len(buffer))] == [3, 5, 8]
    assert not buffer.withdraw({("no such job", 1)})


def _claim(priority: int, seq: int) -> Claim:
    job = a_job(priority=priority, seq=seq, id=f"job-{seq}", claim_version=1)
    return Claim(job, Lease(job.id, 1, 0))
