"""The table of legal moves: every pair of states, for everyone who may move a job, against model.md by hand."""

from __future__ import annotations

from itertools import product

import pytest

from euterpe.model.errors import IllegalTransition
from euterpe.model.state import INITIAL, LIVE, MOVES, TERMINAL, WAITING, By, State, check_advance, check_move

# model.md, "States and every legal move", row by row. `from` may list several states, as the table does.
# "settle of the dependency" is the dependency's move; a job whose dependencies have all ended before it is
# submitted makes the same move inside its own insert (first two rows and the row of bad ends), hence submit.
TABLE: list[tuple[str, str, str]] = [
    # from, to, who
    ("pending", "scheduled delayed", "submit dependency"),
    ("delayed", "scheduled", "sweep"),
    ("scheduled", "running", "worker"),
    ("running", "running", "worker"),
    ("running", "completed", "worker"),
    ("running", "failed", "worker"),
    ("running", "retrying", "worker sweep"),
    ("running", "scheduled", "worker"),
    ("running", "dead_letter", "worker sweep"),
    ("retrying", "scheduled dead_letter", "sweep"),
    ("failed", "scheduled", "operator"),
    ("failed", "dead_letter", "operator"),
    ("pending scheduled delayed retrying running", "cancelled", "operator"),
    ("pending", "failed dead_letter cancelled", "submit dependency"),
    ("pending scheduled delayed retrying running", "dead_letter", "sweep"),
]
# Rule 8: a running job that was asked to cancel ends so by its own worker, or, when that died, by the sweep that
# would have retried it.
RULE_8: list[tuple[str, str, str]] = [("running", "cancelled", "worker sweep")]


def transcribed() -> dict[tuple[State, State], set[By]]:
    moves: dict[tuple[State, State], set[By]] = {}
    for sources, targets, who in TABLE + RULE_8:
        for source, target in product(sources.split(), targets.split()):
            moves.setdefault((State(source), State(target)), set()).update(By(by) for by in who.split())
    return moves


def test_the_table_in_the_code_is_the_table_of_the_page() -> None:
    assert {pair: set(who) for pair, who in MOVES.items()} == transcribed()


@pytest.mark.parametrize("by", list(By))
@pytest.mark.parametrize(("source", "target"), list(product(State, State)), ids=lambda s: str(s))
def test_a_move_is_allowed_exactly_when_the_page_lists_it(source: State, target: State, by: By) -> None:
    if by in transcribed().get((source, target), set()):
        check_move(source, target, by)
    else:
        with pytest.raises(IllegalTransition) as refused:
            check_move(source, target, by)
        assert (refused.value.source, refused.value.target) == (source, target)


def test_the_states_are_the_nine_of_the_model() -> None:
    assert {str(state) for state in State} == {
        "pending", "scheduled", "delayed", "running", "retrying", "completed", "failed", "dead_letter", "cancelled",
    }  # fmt: skip
    assert {str(state) for state in TERMINAL} == {"completed", "failed", "dead_letter", "cancelled"}
    assert set(State) == LIVE | TERMINAL
    assert WAITING | {State.RUNNING} == LIVE
    assert not LIVE & TERMINAL


def test_completed_dead_letter_and_cancelled_are_never_left() -> None:
    for source, _ in MOVES:
        assert source not in {State.COMPLETED, State.DEAD_LETTER, State.CANCELLED}


def test_every_live_state_can_reach_an_end() -> None:
    reached = set(TERMINAL)
    while True:
        more = {source for source, target in MOVES if target in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(State)


def test_every_state_can_be_reached_from_a_submission() -> None:
    reached = set(INITIAL)
    while True:
        more = {target for source, target in MOVES if source in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(State)


# 003 section 2, "Transition Rules", which model.md must contain.
RULES_OF_003 = [
    ("PENDING", "SCHEDULED"),
    ("PENDING", "DELAYED"),
    ("DELAYED", "SCHEDULED"),
    ("SCHEDULED", "RUNNING"),
    ("RUNNING", "COMPLETED"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "RETRYING"),
    ("RUNNING", "DEAD_LETTER"),
    ("RETRYING", "SCHEDULED"),
    ("RETRYING", "DEAD_LETTER"),
]


@pytest.mark.parametrize(("source", "target"), RULES_OF_003)
def test_every_transition_of_003_is_legal(source: str, target: str) -> None:
    assert (State[source], State[target]) in MOVES


# --- stages --------------------------------------------------------------------------------------------

STAGES = ("claimed", "fetching", "processing", "uploading")


@pytest.mark.parametrize(("current", "target"), list(product(STAGES, STAGES)))
def test_a_stage_moves_to_the_next_or_stays_and_never_goes_back(current: str, target: str) -> None:
    step = STAGES.index(target) - STAGES.index(current)
    if step in (0, 1):
        assert check_advance(STAGES, current, target) == STAGES.index(target)
    else:
        with pytest.raises(IllegalTransition, match="never move back" if step < 0 else "the next stage is"):
            check_advance(STAGES, current, target)


def test_an_undeclared_stage_is_an_illegal_move_that_names_the_declared_ones() -> None:
    with pytest.raises(IllegalTransition, match="claimed, boiling"):
        check_advance(("claimed", "boiling"), "claimed", "frying")
