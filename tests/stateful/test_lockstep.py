"""Random histories on SQLite, Postgres and the oracle at once: the three must agree after every single step.

`EUTERPE_STATEFUL_EXAMPLES=500 ./test tests/stateful` looks longer and at new histories; without it the same ones are
played each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import get_state_machine_test

from tests.stateful.histories import Histories
from tests.stateful.lockstep import Lockstep, counted_ids

EXAMPLES = int(os.environ.get("EUTERPE_STATEFUL_EXAMPLES", "0"))
STEPS = 30
PARTS = 8
HISTORIES_PER_PART = 10

pytestmark = pytest.mark.timeout(1800 if EXAMPLES else 300)


@pytest.fixture
def lockstep(tmp_path: Path, fresh_postgres_url: str) -> Iterator[Lockstep]:
    pair = Lockstep(tmp_path, fresh_postgres_url)
    with counted_ids(pair):
        yield pair
    pair.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_sqlite_postgres_and_the_oracle_agree_on_every_history(lockstep: Lockstep, part: int) -> None:
    class OfThisTest(Histories):
        pass

    OfThisTest.lockstep = lockstep
    play = get_state_machine_test(
        OfThisTest,
        settings=settings(
            max_examples=EXAMPLES or HISTORIES_PER_PART,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            print_blob=False,
        ),
    )
    (play if EXAMPLES else seed(part)(play))()
