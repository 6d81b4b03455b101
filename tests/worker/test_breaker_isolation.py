"""What keeps failing costs others nothing: other types, other requesters and other places run as if nothing were.

The clock of the circuits stands still unless a test moves it. A job that an open circuit kept would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import euterpe
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.failures.failure import CIRCUIT_OPEN
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import JobRow
from euterpe.model.reading.why import Reason
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.observe.metrics import Metrics
from euterpe.ports import Store
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.claiming.circuits import CircuitScope, SharedCircuits
from tests.patience import in_time
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import until

MUCH_LATER = RetryPolicy(Backoff(Strategy.CONSTANT, initial_us=3_600_000_000))
AT_ONCE = RetryPolicy(Backoff(Strategy.CONSTANT, initial_us=1_000))
SOON_S = 10.0
"""A fraction of this on a free machine; a cooldown is three times as long, and the clock does not bring it."""


class House:
    """A queue with the types `fetch`, which does as its argument says while the house is at fault, and `echo`."""

    def __init__(self, url: str, cooldown: str = "30s") -> None:
        self.queue = Queue(url)
        self.metrics = Metrics(["default"])
        self.is_at_fault = True
        self._cooldown = cooldown
        self._now_us = 1_000_000

        @self.queue.job("fetch")
        async def fetch(good: bool = False) -> None:
            await asyncio.sleep(0.001)
            if self.is_at_fault and not good:
                raise ConnectionError("the mail server is away")

        @self.queue.job("echo")
        async def echo() -> None: ...

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        options: euterpe.CircuitBreakerOptions = {"cooldown_period": self._cooldown}
        async with self.queue:
            worker = self.queue.worker(
                circuit_breaker=options, concurrency=10, poll="30ms", webhooks=False, telemetry=self.metrics
            )
            self.circuits.clock_us = lambda: self._now_us
            await worker.start()
            yield
            await worker.stop(at_once=True)

    @property
    def circuits(self) -> SharedCircuits:
        cooldown_us = {"30s": 30_000_000, "50ms": 50_000}[self._cooldown]
        return core_of(self.queue).circuits_of(BreakerPolicy(cooldown_us=cooldown_us))

    @property
    def store(self) -> Store:
        return core_of(self.queue).store

    async def submit(self, count: int, requester: str, job_type: str = "fetch", **fields: Any) -> list[str]:
        told = {"retry": MUCH_LATER, **fields}
        one = Submission(type=job_type, requester_id=requester, **told)
        return [answer.job_id for answer in await self.store.submit_many([one] * count)]

    async def rows(self, job_ids: list[str]) -> list[JobRow]:
        return [await self.store.get(job_id) for job_id in job_ids]

    async def complete(self, job_ids: list[str], what: str) -> None:
        """They all end well, soon."""
        began = asyncio.get_running_loop().time()

        async def done() -> bool:
            return all(row.state is State.COMPLETED for row in await self.rows(job_ids))

        await until(done, what)
        in_time(asyncio.get_running_loop().time() - began, SOON_S, what)

    async def opens(self, scope: CircuitScope) -> None:
        await until(lambda: set(self.circuits.tripped) == {scope}, f"the circuit of {scope} opens, and no other")

    def cool_down(self) -> None:
        self._now_us += 30_000_000


GOOD = b'{"good": true}'


async def sixty_bad_jobs_cost_another_type_nothing(house: House) -> None:
    async with house.open():
        bad = await house.submit(57, "local")
        await house.opens(CircuitScope("default", "fetch"))
        await house.complete(await house.submit(20, "local", "echo"), "another type runs")
        assert house.metrics.registry.get_sample_value("circuit_breaker_state", {"queue": "default"}) == 2
        rows = await house.rows(bad)
        assert sum(row.attempt_count for row in rows) < 57, "the rest waits uncharged"
        await house.complete(await house.submit(5, "bob", "echo"), "another requester is seen")
        await house.complete(await house.submit(20, "bob", payload=GOOD), "another requester runs the same type")
        assert set(house.circuits.tripped) == {CircuitScope("default", "fetch", "local")}


async def test_sixty_bad_jobs_of_one_type_cost_another_type_and_another_requester_nothing(url: str) -> None:
    await sixty_bad_jobs_cost_another_type_nothing(House(url))


async def test_sixty_bad_jobs_in_redis_lists_cost_another_type_nothing(redis_url: str) -> None:
    await sixty_bad_jobs_cost_another_type_nothing(House(redis_url))


async def test_timeouts_that_a_submission_made_short_open_no_circuit(url: str) -> None:
    """One request of a submit key must not stop a queue for everybody."""
    house = House(url)
    async with house.open():
        attack: dict[str, Any] = {"execution_timeout_us": 1, "priority": 0, "max_attempts": 1000}
        jobs = await house.submit(20, "mallory", payload=GOOD, **attack)

        async def all_timed_out() -> bool:
            return all((row.error_document or {}).get("category") == "timeout" for row in await house.rows(jobs))

        await until(all_timed_out, "every job of the attack has timed out")
        await house.complete(await house.submit(20, "bob", payload=GOOD), "bob's jobs run")
        assert not house.circuits.tripped


@pytest.mark.parametrize("bad", [120, 400])
async def test_a_requester_whose_jobs_fail_is_alone_with_its_circuit(url: str, bad: int) -> None:
    house = House(url)
    async with house.open():
        failing = await house.submit(bad, "mallory", priority=0)
        await house.opens(CircuitScope("default", "fetch", "mallory"))
        await house.complete(await house.submit(20, "bob", payload=GOOD), "bob's jobs of the same type run")

        async def all_wait() -> list[JobRow]:
            rows = await house.rows(failing)
            return rows if all(row.state is State.RETRYING for row in rows) else []

        rows = await until(all_wait, "mallory's jobs wait outside the line")
        deferred = [row for row in rows if (row.error_document or {})["code"] == CIRCUIT_OPEN]
        assert len(deferred) > bad // 4, "all but those that ran before it opened; how many, the machine decides"
        assert {row.attempt_count for row in deferred} == {0}, "they are not charged"
        told = await house.store.why(deferred[0].id)
        assert told.reason is Reason.BREAKER_OPEN
        assert "fetch in queue default of requester mallory is open" in told.sentence


@ON_SQLITE_ALONE
async def test_jobs_that_a_circuit_kept_run_when_its_probe_succeeds(url: str) -> None:
    house = House(url, cooldown="50ms")
    async with house.open():
        await house.complete(await house.submit(1, "bob", payload=GOOD), "another requester is seen")
        jobs = await house.submit(60, "ann", retry=AT_ONCE)
        await house.opens(CircuitScope("default", "fetch", "ann"))
        house.is_at_fault = False

        async def done() -> bool:
            house.cool_down()
            return all(row.state is State.COMPLETED for row in await house.rows(jobs))

        await until(done, "each of them runs")
        assert not house.circuits.tripped
