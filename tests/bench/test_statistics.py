"""Medians, spreads, percentiles and ratios by round."""

from __future__ import annotations

import pytest

from bench.harness.statistics import Spread, percentile, ratio, spread


def test_a_spread_is_the_median_with_the_extremes() -> None:
    assert spread([30.0, 10.0, 20.0]) == Spread(median=20.0, low=10.0, high=30.0, count=3)
    assert spread([10.0, 40.0]).median == 25.0


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = [float(number) for number in range(1, 201)]

    assert percentile(values, 50) == 100.0
    assert percentile(values, 99) == 198.0
    assert percentile(values, 100) == 200.0
    assert percentile([7.0], 1) == 7.0


def test_a_ratio_pairs_the_figures_of_the_same_round() -> None:
    # The medians' ratio would be 1.0; round by round the first is twice as fast whenever both were measured.
    assert ratio({1: 20.0, 2: 200.0}, {1: 10.0, 2: 100.0}) == Spread(median=2.0, low=2.0, high=2.0, count=2)


def test_a_round_in_which_one_side_failed_is_left_out_of_the_ratio() -> None:
    assert ratio({1: 30.0, 2: 80.0}, {2: 40.0, 3: 1.0}) == Spread(median=2.0, low=2.0, high=2.0, count=1)


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_a_percentile_outside_its_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="percent is"):
        percentile([1.0], percent)


def test_nothing_measured_has_neither_spread_nor_percentile_nor_ratio() -> None:
    with pytest.raises(ValueError, match="values is empty"):
        spread([])
    with pytest.raises(ValueError, match="values is empty"):
        percentile([], 50)
    with pytest.raises(ValueError, match="share no round"):
        ratio({1: 1.0}, {2: 1.0})
    with pytest.raises(ValueError, match=r"0 in rounds \[1\]"):
        ratio({1: 1.0}, {1: 0.0})
