"""A job type's own backoff may do anything; those who settle it, and the jobs they settle beside it, go on."""

from __future__ import annotations

import logging
import math
import sys
from typing import Any

import pytest

from euterpe.model.failures.backoff import Backoff, Strategy, register_custom_delay
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.state import State
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import HOUR, MINUTE, SECOND, fail, state_of, taken
from tests.conformance.clock import FrozenClock

POLICY = RetryPolicy(Backoff(Strategy.CUSTOM, jitter=0.0, name="tests.hostile"))


def _raises(*_: int) -> int:
    raise ZeroDivisionError


def _exits(*_: int) -> int:
    sys.exit(3)


def _recurses(*bounds: int) -> int:
    return _recurses(*bounds)


HOSTILE: dict[str, Any] = {
    "raises": _raises,
    "exits": _exits,
    "recurses": _recurses,
    "takes nothing": lambda: 1,
    "None": lambda *_: None,
    "text": lambda *_: "5s",
    "NaN": lambda *_: math.nan,
    "infinite": lambda *_: math.inf,
    "negative": lambda *_: -1,
    "a truth": lambda *_: True,
    "complex": lambda *_: 1j,
}


@pytest.fixture(params=["sqlite", "postgres"])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("function", HOSTILE.values(), ids=list(HOSTILE))
async def test_lost_jobs_are_recovered_beside_one_whose_backoff_is_of_no_use(
    store: SqlStore, clock: FrozenClock, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    register_custom_delay("tests.hostile", function)
    ours, bad = await taken(store, "ours"), await taken(store, "their.type", retry=POLICY)
    at = clock.advance(us=2 * MINUTE)
    with caplog.at_level(logging.WARNING, "euterpe"):
        assert await store.sweeps.reclaim() == 2
    assert [await state_of(store, c.job.id) for c in (ours, bad)] == [State.RETRYING] * 2
    assert (await store.get(bad.job.id)).run_at == at + SECOND, "the exponential default stands in"
    (warning,) = [r for r in caplog.records if "backoff" in r.getMessage()]
    assert vars(warning)["type"] == "their.type"


async def test_a_worker_settles_it_too(store: SqlStore, clock: FrozenClock) -> None:
    register_custom_delay("tests.hostile", _raises)
    claim = await taken(store, retry=POLICY)
    verdict = await fail(store, claim)
    assert (verdict.accepted, verdict.delay_us) == (True, SECOND)


async def test_a_delay_that_is_only_too_long_is_capped(store: SqlStore, clock: FrozenClock) -> None:
    register_custom_delay("tests.hostile", lambda *_: 10**400)
    claim = await taken(store, retry=POLICY)
    assert (await fail(store, claim)).delay_us == HOUR
