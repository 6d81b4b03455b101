"""The rules of dependencies: what is waited for, how ends propagate, and the limits on a graph's shape."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.dependency import (
    MAX_BREADTH,
    MAX_DEPTH,
    WAITS,
    Dependency,
    check_breadth,
    depth_above,
    end_of_dependent,
    gravest,
    in_order,
    parse_dependency,
    waits_for,
)
from euterpe.model.errors import DependencyCycle, DependencyLimit, InvalidInput
from euterpe.model.state import TERMINAL, State

COMPLETED, FAILED, DEAD, CANCELLED = State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED
LIKEWISE = [Dependency.AFTER, Dependency.FAN_IN]
ends = st.lists(st.sampled_from(sorted(TERMINAL)), min_size=1, max_size=8)


def test_there_are_five_kinds_and_four_of_them_wait() -> None:
    assert {str(kind) for kind in Dependency} == {"after", "after_any", "chain", "fan_out", "fan_in"}
    assert set(Dependency) - WAITS == {Dependency.FAN_OUT}


# --- ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LIKEWISE)
@pytest.mark.parametrize("end", [FAILED, DEAD, CANCELLED])
def test_a_bad_end_is_shared_by_what_waits_for_success(kind: Dependency, end: State) -> None:
    assert end_of_dependent(kind, [COMPLETED, end]) is end


@pytest.mark.parametrize("kind", LIKEWISE)
@pytest.mark.parametrize("mixed", list(permutations([COMPLETED, FAILED, DEAD, CANCELLED])), ids=str)
def test_of_mixed_ends_dead_letter_wins_over_failed_over_cancelled(kind: Dependency, mixed: tuple[State, ...]) -> None:
    assert end_of_dependent(kind, mixed) is DEAD
    assert end_of_dependent(kind, [e for e in mixed if e is not DEAD]) is FAILED
    assert end_of_dependent(kind, [e for e in mixed if e not in (DEAD, FAILED)]) is CANCELLED


@given(ends)
def test_a_chain_is_cancelled_by_any_bad_end(happened: list[State]) -> None:
    expected = None if set(happened) == {COMPLETED} else CANCELLED
    assert end_of_dependent(Dependency.CHAIN, happened) is expected


@given(ends)
def test_after_any_never_minds_how_a_dependency_ended(happened: list[State]) -> None:
    assert end_of_dependent(Dependency.AFTER_ANY, happened) is None


@pytest.mark.parametrize("kind", list(Dependency))
def test_success_ends_nobody(kind: Dependency) -> None:
    assert end_of_dependent(kind, [COMPLETED, COMPLETED]) is None
    assert end_of_dependent(kind, []) is None


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sampled_from(sorted(TERMINAL)), min_size=1))
def test_the_dependency_named_as_the_reason_is_the_one_that_decided(happened: dict[str, State]) -> None:
    decided = end_of_dependent(Dependency.AFTER, happened.values())
    if decided is not None:
        culprit = gravest(happened)
        assert happened[culprit] is decided
        assert culprit == gravest(dict(reversed(list(happened.items()))))


# --- waiting -------------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_all_unfinished_dependencies_are_waited_for_but_after_any_waits_for_one(unfinished: int, finished: int) -> None:
    for kind in (Dependency.AFTER, Dependency.CHAIN, Dependency.FAN_IN):
        assert waits_for(kind, unfinished, finished) == unfinished
    assert waits_for(Dependency.AFTER_ANY, unfinished, finished) == (1 if unfinished and not finished else 0)


# --- shape ---------------------------------------------------------------------------------------------


def test_a_thousand_dependencies_are_allowed_and_one_more_is_not() -> None:
    assert MAX_BREADTH == 1000
    check_breadth(["x"] * 1000)
    with pytest.raises(DependencyLimit, match="1001") as refused:
        check_breadth(["x"] * 1001)
    assert refused.value.field == "depends_on"


def test_a_hundred_levels_are_allowed_and_one_more_is_not() -> None:
    assert MAX_DEPTH == 100
    assert depth_above([]) == 1
    assert depth_above([3, 99, 7]) == 100
    with pytest.raises(DependencyLimit, match="101 levels") as refused:
        depth_above([100])
    assert refused.value.field == "depends_on"


@given(st.dictionaries(st.integers(0, 20).map(str), st.lists(st.integers(0, 25).map(str), max_size=4), max_size=20))
def test_an_order_puts_every_job_after_what_it_needs_or_there_is_a_cycle(edges: dict[str, list[str]]) -> None:
    if _has_cycle(edges):
        with pytest.raises(DependencyCycle) as refused:
            in_order(edges)
        assert refused.value.field == "depends_on"
        return
    order = in_order(edges)
    assert sorted(order) == sorted(edges)
    place = {node: i for i, node in enumerate(order)}
    for node, needs in edges.items():
        assert all(place[need] < place[node] for need in needs if need in place)


def _has_cycle(edges: dict[str, list[str]]) -> bool:
    """By hand: can any node reach itself?"""
    for start in edges:
        seen: set[str] = set()
        frontier = [n for n in edges[start] if n in edges]
        while frontier:
            node = frontier.pop()
            if node == start:
                return True
            if node not in seen:
                seen.add(node)
                frontier += [n for n in edges[node] if n in edges]
    return False


def test_a_cycle_error_names_jobs_of_the_cycle() -> None:
    with pytest.raises(DependencyCycle, match="a, b"):
        in_order({"a": ["b"], "b": ["a"], "c": []})


# --- words ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(WAITS))
def test_a_kind_is_known_by_its_name_in_any_case(kind: Dependency) -> None:
    assert parse_dependency(str(kind).upper()) is kind
    assert parse_dependency(kind) is kind


@pytest.mark.parametrize("word", ["", "before", "fan_out", "AFTER-ANY", "1"])
def test_any_other_word_is_refused_with_the_ones_that_are_known(word: str) -> None:
    with pytest.raises(InvalidInput, match="after, after_any, chain, fan_in") as refused:
        parse_dependency(word)
    assert refused.value.field == "dependency"
