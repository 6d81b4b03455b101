"""Ready chunks and claim receipts (ADR 017): the protocol holds in every order of its statements, and the explorer that
says so finds each bug that is planted into it.

`EUTERPE_TEST_ORDERS=all` also explores what takes minutes: three workers and three transactions at once.
"""

from __future__ import annotations

import os

import pytest

from tests.protocol.explorer import Broken, Explorer, Scenario

ONE_CHUNK = (0, 0)
TWO_CHUNKS = (0, 1)
NOTHING_ELSE = frozenset[str]()
FULL = frozenset({"full"})
EVERYTHING = frozenset({"full", "fail", "release", "heartbeat"})


def _cancel(force: bool = False, jobs: tuple[int, ...] = (0,)) -> tuple[object, ...]:
    return ("cancel", jobs, force, ONE_CHUNK)


SCENARIOS = {
    "two workers and the death of one": Scenario(ONE_CHUNK, NOTHING_ELSE, ()),
    "three workers, one transaction at a time": Scenario(ONE_CHUNK, FULL, (), at_once=1),
    "reports of every kind": Scenario(ONE_CHUNK, EVERYTHING - FULL, (), workers=1, deaths=0),
    "lost answers": Scenario(ONE_CHUNK, frozenset({"lost answer"}), (), workers=1, deaths=0),
    "two chunks": Scenario(TWO_CHUNKS, NOTHING_ELSE, (), deaths=0),
    "a cancel": Scenario(ONE_CHUNK, FULL, (_cancel(),), workers=1, deaths=0),
    "a cancel by force": Scenario(ONE_CHUNK, NOTHING_ELSE, (_cancel(force=True),), workers=1, deaths=0, at_once=3),
    "the end of a lifetime": Scenario(ONE_CHUNK, FULL, (("end_lifetime", 0, ONE_CHUNK),), workers=1, deaths=0),
    "a dependent": Scenario(ONE_CHUNK, FULL, (("add_dependent", 0, ONE_CHUNK),), workers=1, deaths=0),
    "two cancels of both jobs": Scenario(
        ONE_CHUNK, NOTHING_ELSE, (_cancel(jobs=(0, 1)), _cancel(jobs=(0, 1))), workers=1, deaths=0
    ),
}
LONG = {
    "three workers that do everything, one transaction at a time": Scenario(ONE_CHUNK, EVERYTHING, (), at_once=1),
    "three workers at once": Scenario(ONE_CHUNK, NOTHING_ELSE, (), workers=3, at_once=3),
    "everything at once": Scenario(ONE_CHUNK, EVERYTHING, (_cancel(force=True),), at_once=3),
}
EXPLORED = SCENARIOS | LONG if os.environ.get("EUTERPE_TEST_ORDERS") == "all" else SCENARIOS
FLAWS = {
    "hands_out_its_snapshot": ("two workers and the death of one", "handed out twice"),
    "piece_stays_in_its_chunk": ("two workers and the death of one", "in 2 places"),
    "fence_without_flag": ("two workers and the death of one", "a claim that was over"),
    "fence_without_state": ("lost answers", "a claim that was over"),
    "materialise_without_state": ("two workers and the death of one", "was written again"),
    "materialise_without_flag": ("reports of every kind", "a claim that is over"),
    "materialise_keeps_the_version": ("two workers and the death of one", "handed out twice"),
    "receipt_dropped_early": ("two workers and the death of one", "in 0 places"),
    "sweep_forgets_the_rows": ("two workers and the death of one", "in 0 places"),
    "unchunk_keeps_the_flag": ("a cancel", "could not be acted on"),
    "full_claim_keeps_the_flag": ("a cancel", "in 0 places"),
    "full_claim_leaves_the_chunk": ("a cancel", "still waits in a chunk"),
    "convert_looks_once": ("a cancel", "could not be acted on"),
    "convert_takes_nothing_out": ("a cancel", "still waits in a chunk"),
    "convert_passes_over_a_locked_chunk": ("a cancel", "could not be acted on"),
    "convert_in_any_order": ("two cancels of both jobs", "wait for each other"),
    "cancel_without_converting": ("a cancel", "still waits in a chunk"),
    "dependents_without_converting+fence_without_dependents": ("a dependent", "nobody told its dependents"),
}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", EXPLORED)
def test_the_protocol_keeps_every_promise_in_every_order_of_its_statements(name: str) -> None:
    assert Explorer(EXPLORED[name]).run() > 1000


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_planted_bug_is_found(flaw: str) -> None:
    scenario, says = FLAWS[flaw]
    with pytest.raises(Broken, match=says):
        Explorer(SCENARIOS[scenario], frozenset(flaw.split("+"))).run()
