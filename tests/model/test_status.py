"""000's status words: a projection of state and stage on which 000's own transition table holds, hop by hop."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from euterpe.model.state import MOVES, STATUS_MOVES, TRANSCODE_STAGES, By, State, status, status_path

# 000 section 3, "Allowed transitions", as it stands there.
TABLE_OF_000 = """
queued -> claimed
claimed -> fetching
fetching -> processing
processing -> uploading
uploading -> succeeded
claimed|fetching|processing|uploading -> queued
claimed|fetching|processing|uploading -> failed
failed -> queued
failed -> dead_letter
"""
ALLOWED = {
    (source, target.strip())
    for line in TABLE_OF_000.strip().splitlines()
    for sources, target in [line.split(" -> ")]
    for source in sources.split("|")
}

# What the model adds to 000, and nothing else may: `cancelled` is a state of 003 that 000 has no word for; a
# dependency that ended badly and a lifetime that is over end a job that never ran.
CANCEL = {(source, "cancelled") for source in ("queued", *TRANSCODE_STAGES)}
DEPENDENCY_END = {("queued", "failed"), ("queued", "dead_letter")}
LIFETIME = {("queued", "dead_letter")}

STAGED = [(State.RUNNING, stage) for stage in TRANSCODE_STAGES]
PLACES: list[tuple[State, str | None]] = [*((s, None) for s in State if s is not State.RUNNING), *STAGED]


def hops(source: tuple[State, str | None], target: tuple[State, str | None]) -> list[tuple[str, str]]:
    return list(pairwise(status_path(source[0], source[1], target[0], target[1])))


def test_the_table_in_the_code_is_the_table_of_the_contract() -> None:
    assert STATUS_MOVES == ALLOWED


@pytest.mark.parametrize(
    ("state", "stage", "word"),
    [
        (State.PENDING, None, "queued"),
        (State.SCHEDULED, None, "queued"),
        (State.DELAYED, None, "queued"),
        (State.RETRYING, "uploading", "queued"),
        (State.RUNNING, "claimed", "claimed"),
        (State.RUNNING, None, "claimed"),
        (State.RUNNING, "fetching", "fetching"),
        (State.RUNNING, "processing", "processing"),
        (State.RUNNING, "uploading", "uploading"),
        (State.COMPLETED, "uploading", "succeeded"),
        (State.FAILED, "uploading", "failed"),
        (State.DEAD_LETTER, None, "dead_letter"),
        (State.CANCELLED, None, "cancelled"),
    ],
)
def test_a_status_is_the_projection_of_state_and_stage(state: State, stage: str | None, word: str) -> None:
    assert status(state, stage) == word


LEGAL = [
    (source, target, who)
    for source, target in product(PLACES, PLACES)
    for who in [MOVES.get((source[0], target[0]), frozenset())]
    if who
    and (target[0] is not State.RUNNING or target[1] == "claimed" or source[0] is State.RUNNING)
    and not (
        source[0] is target[0] is State.RUNNING
        and TRANSCODE_STAGES.index(target[1] or "") < TRANSCODE_STAGES.index(source[1] or "")
    )
]


@pytest.mark.parametrize(
    ("source", "target", "who"),
    [pytest.param(*move, id=f"{move[0][0]}.{move[0][1]}-{move[1][0]}.{move[1][1]}") for move in LEGAL],
)
def test_every_legal_move_keeps_the_contracts_table_hop_by_hop(
    source: tuple[State, str | None], target: tuple[State, str | None], who: frozenset[By]
) -> None:
    allowed = set(ALLOWED)
    if target[0] is State.CANCELLED:
        allowed |= CANCEL
    if By.DEPENDENCY in who and source[0] is State.PENDING:
        allowed |= DEPENDENCY_END
    if target[0] is State.DEAD_LETTER and By.SWEEP in who:
        allowed |= LIFETIME
    assert [hop for hop in hops(source, target) if hop not in allowed] == []


def test_the_extensions_are_needed_for_nothing_but_what_they_are_named_for() -> None:
    beyond = {hop for source, target, _ in LEGAL for hop in hops(source, target)} - ALLOWED
    assert beyond == CANCEL | DEPENDENCY_END | LIFETIME


def test_all_that_workers_do_stays_inside_the_contracts_table_but_for_the_cancel() -> None:
    for source, target, who in LEGAL:
        if By.WORKER in who and target[0] is not State.CANCELLED:
            assert set(hops(source, target)) <= ALLOWED


def test_a_completion_from_an_early_stage_passes_the_stages_after_it() -> None:
    assert list(status_path(State.RUNNING, "claimed", State.COMPLETED)) == [
        "claimed", "fetching", "processing", "uploading", "succeeded",
    ]  # fmt: skip


def test_dead_lettering_a_running_job_passes_failed() -> None:
    assert list(status_path(State.RUNNING, "processing", State.DEAD_LETTER)) == ["processing", "failed", "dead_letter"]


def test_a_move_among_waiting_states_is_no_change_of_status() -> None:
    assert list(status_path(State.DELAYED, None, State.SCHEDULED)) == ["queued"]
