"""Which types a claim may bring, by the room that limited types have left."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.worker.attempts import RunningAttempts
from euterpe.worker.claiming.type_limits import LOOK_AGAIN_S, PAUSE_FACTOR, TypeLimits
from euterpe.worker.handling.handlers import Handlers, handler_of


class Floor:
    """What a worker runs, and a clock that stands still."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.now = 100.0
        self.handlers = Handlers()
        for name, limit in (("heavy", 3), ("large", 5), ("light", None)):
            self.handlers.add(handler_of(name, lambda: None, worker_limit=limit))
        self.limits = TypeLimits(self.handlers, cast(RunningAttempts, self), lambda: self.now)

    def count_by_type(self) -> Counter[str]:
        return self.running

    def narrowed(self, limit: int, **more: Any) -> ClaimRequest:
        whole = ClaimRequest(worker_id="w:1", limit=limit, types=self.handlers.types, **more)
        return self.limits.narrowed(whole)


@pytest.fixture
def floor() -> Floor:
    return Floor()


def test_few_slots_are_claimed_for_all_types_together(floor: Floor) -> None:
    request = floor.narrowed(3)
    assert (request.limit, set(request.types or ())) == (3, {"heavy", "large", "light"})


def test_many_slots_are_claimed_for_limited_types_first_and_then_for_others(floor: Floor) -> None:
    apart = floor.narrowed(50)
    assert (apart.limit, apart.types) == (3, ("heavy", "large"))
    floor.limits.reserve(apart)
    floor.limits.answered(apart, 1, 0.001)
    floor.limits.give_back(apart)
    floor.running["heavy"] = 1
    others = floor.narrowed(50)
    assert (others.limit, others.types) == (50, ("light",))
    floor.now += LOOK_AGAIN_S
    assert floor.narrowed(50).types == ("heavy", "large")


def test_a_claim_that_read_past_a_long_backlog_is_made_again_after_a_longer_pause(floor: Floor) -> None:
    apart = floor.narrowed(50)
    floor.limits.reserve(apart)
    floor.limits.answered(apart, 0, 0.1)
    floor.limits.give_back(apart)
    floor.now += 0.99 * PAUSE_FACTOR * 0.1
    assert floor.narrowed(50).types == ("light",)
    floor.now += 0.02 * PAUSE_FACTOR * 0.1
    assert floor.narrowed(50).types == ("heavy", "large")


def test_a_full_type_is_left_out(floor: Floor) -> None:
    floor.running["heavy"] = 3
    assert floor.narrowed(2).types == ("light", "large")
    assert floor.narrowed(50).types == ("large",)
    floor.running["large"] = 5
    assert floor.narrowed(50).types == ("light",)


def test_a_claim_under_way_holds_its_places(floor: Floor) -> None:
    apart = floor.narrowed(50)
    floor.limits.reserve(apart)
    assert floor.limits.room() == {"heavy": 0, "large": 2}
    floor.limits.give_back(apart)
    assert floor.limits.room() == {"heavy": 3, "large": 5}


def test_nothing_of_a_limited_type_is_claimed_ahead(floor: Floor) -> None:
    ahead: dict[str, Any] = {"prefetch": 40, "prefetch_types": ("light", "heavy")}
    assert floor.narrowed(3, **ahead).prefetch_types == ("light",)
    assert floor.narrowed(50, **ahead).prefetch == 0


def test_jobs_that_came_during_the_pause_end_the_sleep_with_it(floor: Floor) -> None:
    apart = floor.narrowed(50)
    floor.limits.reserve(apart)
    floor.limits.answered(apart, 0, 0.0)
    floor.limits.give_back(apart)
    assert floor.limits.wait_s(1.0) == 1.0
    floor.limits.jobs_came()
    assert floor.limits.wait_s(1.0) == pytest.approx(LOOK_AGAIN_S)


def test_a_worker_of_limited_types_alone_asks_for_them_without_a_pause() -> None:
    floor = Floor()
    del floor.handlers.by_type["light"]
    floor.handlers.types = tuple(floor.handlers.by_type)
    request = floor.narrowed(50)
    assert (request.limit, request.types) == (3, ("heavy", "large"))
    assert not floor.limits.is_apart(request)
