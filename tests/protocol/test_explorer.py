"""The protocol of the line holds in every order of its statements, and the explorer that says so finds each bug that is
planted into it. Its facts are read out of the SQL texts, so a text that loses one is found as well.

`EUTERPE_TEST_ORDERS=all` also explores what takes minutes.
"""

from __future__ import annotations

import os

import pytest

from tests.protocol.explorer import Broken, Explorer, Scenario
from tests.protocol.facts import EVERY_FACT, facts_of_the_code
from tests.protocol.programs import Job

PLAIN = Job()
LESS_URGENT = Job(priority=2)
TWO_TRIES = Job(tries=2)
KEYED = Job(keyed=True)
RUN_OF_TWO = ((0, 2),)
TWO_LONE = ((0, 1), (1, 1))
RELEASE = frozenset({"release"})

SCENARIOS = {
    "a run and two claimers": Scenario((PLAIN,) * 3, ((0, 3),)),
    "a run and three claimers": Scenario((PLAIN,) * 2, RUN_OF_TWO, workers=3, limits=(1,), at_once=3),
    "a run before a lone job": Scenario((PLAIN, PLAIN, PLAIN), ((0, 2), (2, 1)), limits=(1, 3)),
    "two lone jobs, a run, a lone job": Scenario((PLAIN,) * 5, ((0, 1), (1, 1), (2, 2), (4, 1)), limits=(2,)),
    "a run before a less urgent job": Scenario((PLAIN, PLAIN, LESS_URGENT), ((0, 2), (2, 1)), deaths=1),
    "a lone job before a run": Scenario((PLAIN,) * 3, ((0, 1), (1, 2))),
    "a lone job, a run, a lone job": Scenario((PLAIN,) * 4, ((0, 1), (1, 2), (3, 1)), limits=(1, 2)),
    "lone jobs": Scenario((PLAIN, PLAIN, LESS_URGENT), ((0, 1), (1, 1), (2, 1)), limits=(1, 2)),
    "the death of a worker": Scenario((TWO_TRIES, PLAIN), RUN_OF_TWO, deaths=1),
    "jobs that come back": Scenario((PLAIN, PLAIN), RUN_OF_TWO, RELEASE, limits=(1,)),
    "the first of a run comes back": Scenario((PLAIN,) * 3, ((0, 3),), RELEASE, workers=1, limits=(1,)),
    "a worker that sleeps": Scenario((TWO_TRIES,), ((0, 1),), frozenset({"reclaim", "settle"})),
    "a cancel in a run": Scenario((PLAIN, PLAIN), RUN_OF_TWO, actors=(("cancel", 0),)),
    "a cancel of a lone job": Scenario((PLAIN, PLAIN), TWO_LONE, actors=(("cancel", 0),)),
    "a cancelled run before a job": Scenario(
        (PLAIN,) * 3, ((0, 2), (2, 1)), actors=(("cancel", 0), ("cancel", 1)), workers=1
    ),
    "another priority": Scenario((PLAIN, PLAIN), RUN_OF_TWO, actors=(("reprioritise", 0, 2),)),
    "another priority, and back": Scenario(
        (PLAIN, PLAIN), RUN_OF_TWO, actors=(("reprioritise", 0, 0), ("reprioritise", 0, 1)), workers=1
    ),
    "around held rows": Scenario((PLAIN, PLAIN), RUN_OF_TWO, frozenset({"around"}), (("cancel", 0),)),
    "more urgent jobs arrive": Scenario(
        (PLAIN, PLAIN), RUN_OF_TWO, actors=(("submit", 2, (Job(priority=0),)),), limits=(1,)
    ),
    "a key": Scenario((KEYED,) * 3, ((0, 1),), RELEASE),
    "a key and the death of a worker": Scenario((KEYED._replace(tries=2), KEYED), ((0, 1),), deaths=1),
    "a cancel of one that waits for its key": Scenario((KEYED,) * 2, ((0, 1),), actors=(("cancel", 1),), workers=1),
    "a cancel of one whose key let it in": Scenario((KEYED,) * 2, ((0, 1),), actors=(("cancel", 0),)),
    "another priority of one with a key": Scenario(
        (KEYED,) * 2, ((0, 1),), actors=(("reprioritise", 1, 0), ("cancel", 0)), workers=1
    ),
    "a key beside a run": Scenario((PLAIN, PLAIN, KEYED, KEYED), ((0, 2), (2, 1)), limits=(3,)),
}
LONG = {
    "a run of four": Scenario((PLAIN,) * 4, ((0, 4),), RELEASE, limits=(1, 2)),
    "two runs, priorities, deaths": Scenario(
        (TWO_TRIES, PLAIN, LESS_URGENT, LESS_URGENT), ((0, 2), (2, 2)), deaths=1, limits=(1, 3)
    ),
    "operators beside three claimers": Scenario(
        (PLAIN, PLAIN), RUN_OF_TWO, frozenset({"around"}), (("cancel", 0), ("reprioritise", 1, 0)), workers=3, at_once=3
    ),
}
EXPLORED = SCENARIOS | LONG if os.environ.get("EUTERPE_TEST_ORDERS") == "all" else SCENARIOS
FLAWS = {
    "a claim asks for the state": ("a cancel in a run", "was cancelled, and was handed out"),
    "a claim asks for the priority": ("another priority", "was taken before it"),
    "a plain end asks for the version": ("a worker that sleeps", "that was over has ended it"),
    "a plain end asks for the lease": ("a worker that sleeps", "that was over has ended it"),
    "a plain end leaves keys alone": ("a key", "the counters say"),
    "a settle asks for the version": ("a worker that sleeps", "that was over has ended it"),
    "a settle asks for the lease": ("a worker that sleeps", "that was over has ended it"),
    "stops at a held run": ("a run before a lone job", "was taken before it"),
    "a longer run that is held is not passed over": ("a run before a lone job", "was taken before it"),
    "the last of a longer run is not single": ("a run and two claimers", "and did not take it"),
    "asks again after jobs that are gone": ("a cancelled run before a job", "came back empty"),
    "rows are written in the transaction of their run": ("the death of a worker", "in no line"),
    "a claim counts keys": ("a key", "the counters say"),
    "an end frees its key": ("a key", "the counters say"),
    "admission keeps to the limit": ("a key", "jobs of the key run"),
    "a settle enters the line": ("jobs that come back", "in no line"),
    "a new priority enters the line": ("another priority", "in no line"),
    "a submit enters the line": ("more urgent jobs arrive", "in no line"),
    "who leaves takes its own run away+strays of a key are dropped": (
        "a cancel of one whose key let it in",
        "run 0 is of",
    ),
    "strays of a key are dropped": ("a cancel of one that waits for its key", "which is cancelled"),
    "who leaves a key's own line holds the key": ("a cancel of one that waits for its key", "wait for each other"),
    "every entry is a new run": ("another priority, and back", "in no line"),
}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", EXPLORED)
def test_the_protocol_keeps_every_promise_in_every_order_of_its_statements(name: str) -> None:
    assert Explorer(EXPLORED[name], facts_of_the_code()).run() > 100


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_planted_bug_is_found(flaw: str) -> None:
    scenario, says = FLAWS[flaw]
    with pytest.raises(Broken, match=says):
        Explorer(SCENARIOS[scenario], EVERY_FACT - set(flaw.split("+"))).run()


def test_a_bug_is_planted_for_every_fact() -> None:
    assert {fact for flaw in FLAWS for fact in flaw.split("+")} == EVERY_FACT


def test_the_code_bears_out_every_fact() -> None:
    assert facts_of_the_code() == EVERY_FACT
