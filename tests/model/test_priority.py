"""Five levels, known by number or name; a dependent is at least as urgent as what it waits for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.errors import InvalidInput
from euterpe.model.priority import PRIORITY_NAMES, Priority, inherit, parse_priority

LEVELS = {0: "critical", 1: "high", 2: "normal", 3: "low", 4: "bulk"}


def test_the_levels_are_those_of_the_specification() -> None:
    assert {int(level): level.name.lower() for level in Priority} == LEVELS
    assert tuple(LEVELS.values()) == PRIORITY_NAMES


@pytest.mark.parametrize(("number", "name"), LEVELS.items())
def test_a_level_is_known_by_number_name_and_itself(number: int, name: str) -> None:
    for said in (number, name, name.upper(), name.title(), Priority(number)):
        assert parse_priority(said) is Priority(number)


@pytest.mark.parametrize("bad", [-1, 5, True, False, "", "urgent", "1", 1.0, 2.5, None, [], b"high"])
def test_anything_else_is_refused_with_the_names_that_are_known(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="critical, high, normal, low, bulk") as refused:
        parse_priority(bad)
    assert refused.value.field == "priority"


@given(st.integers(0, 4), st.lists(st.integers(0, 4)))
def test_a_dependent_inherits_the_most_urgent_priority(own: int, dependencies: list[int]) -> None:
    inherited = inherit(own, iter(dependencies))
    assert inherited == min([own, *dependencies])


def test_a_job_without_dependencies_keeps_its_own() -> None:
    assert inherit(3, []) == 3
