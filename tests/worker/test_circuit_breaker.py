"""A queue whose jobs keep failing is left alone: nothing of it is claimed, lost or charged, and one probe decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import euterpe
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.state import State
from euterpe.observe.metrics import Metrics
from euterpe.queue.queue import Queue, core_of
from tests.worker.conftest import ON_SQLITE_ALONE
from tests.worker.floor import until

BREAKER: euterpe.CircuitBreakerOptions = {"min_samples": 4, "window": "60s", "cooldown_period": "30s"}
MUCH_LATER = {"strategy": "constant", "initial": "1h", "jitter": 0}


class Shop:
    """A queue whose `fetch` jobs do what the test says, and a clock of its breakers that only the test moves."""

    def __init__(self, url: str) -> None:
        self.queue = Queue(url)
        self.metrics = Metrics(["mail", "default"])
        self.mode = "fail"
        self.ran: list[str] = []
        self.gate = asyncio.Event()
        self._now_us = 1_000_000
        circuits = core_of(self.queue).circuits_of(BreakerPolicy(min_samples=4))
        circuits.clock_us = lambda: self._now_us

        @self.queue.job("fetch", backoff=MUCH_LATER)
        async def fetch(ctx: euterpe.Context) -> None:
            self.ran.append(ctx.job_id)
            if self.mode == "wait, then fail":
                await self.gate.wait()
            if self.mode == "fail permanently":
                raise euterpe.PermanentError("no such thing")
            if self.mode != "succeed":
                raise ConnectionError("the mail server is away")

        self.fetch = fetch

    @asynccontextmanager
    async def open(self, workers: int = 1, **settings: Any) -> AsyncIterator[None]:
        """Its workers at work; at the end they give back what runs."""
        settings = {"circuit_breaker": BREAKER, "concurrency": 1, "poll": "30ms", **settings}
        options = {"queues": ["mail", "default"], "telemetry": self.metrics, "webhooks": False, **settings}
        async with self.queue:
            crew = [self.queue.worker(**options) for _ in range(workers)]
            for worker in crew:
                await worker.start()
            yield
            await asyncio.gather(*(worker.stop(at_once=True) for worker in crew))

    async def submit(self, count: int, queue: str = "mail") -> None:
        await self.queue.submit_many([self.fetch.with_args().with_options(queue=queue) for _ in range(count)])

    def cool_down(self) -> None:
        self._now_us += 30_000_000

    async def runs(self, count: int) -> None:
        """Until so many attempts have begun. Meanwhile the clock goes on: an empty queue is asked again later."""

        def look() -> bool:
            self.cool_down()
            return len(self.ran) == count

        await until(look, f"{count} attempts have begun", 20)

    def code(self, queue: str = "mail") -> float:
        value = self.metrics.registry.get_sample_value("circuit_breaker_state", {"queue": queue})
        assert value is not None
        return value

    async def turns(self, code: float) -> None:
        await until(lambda: self.code() == code, f"the circuit's state becomes {code}", 20)

    async def states(self) -> list[tuple[State, int]]:
        """Of the jobs of `mail`: state and charged attempts."""
        page = await self.queue.search(queue="mail", limit=1000)
        return [(job.state, job.attempt) for job in page.jobs]

    async def untouched(self) -> int:
        """Jobs of the queue that wait as they came: no attempt was charged."""
        return (await self.states()).count((State.SCHEDULED, 0))


async def test_an_open_circuit_claims_nothing_and_charges_nothing_and_one_probe_decides(url: str) -> None:
    shop = Shop(url)
    async with shop.open():
        assert (shop.code("mail"), shop.code("default")) == (0, 0), "a circuit has a sample from the start"
        await shop.submit(10)
        await shop.turns(2)
        await until(lambda: len(shop.ran) == 4, "four failures open it")
        assert await shop.untouched() == 6

        shop.mode = "succeed"
        await shop.submit(5, "default")
        await until(lambda: len(shop.ran) == 9, "other queues go on")
        assert await shop.untouched() == 6
        assert (shop.code("mail"), shop.code("default")) == (2, 0)

        shop.mode = "wait, then fail"
        shop.cool_down()
        await until(lambda: len(shop.ran) == 10, "the probe runs")
        assert shop.code() == 1
        shop.cool_down()  # however long it takes, there is no second one
        assert await shop.untouched() == 5
        shop.gate.set()
        await shop.turns(2)

        shop.mode = "succeed"
        shop.cool_down()
        await until(lambda: len(shop.ran) == 15, "the probe succeeds, and the rest follows")
        assert shop.code() == 0


async def test_an_engine_that_is_no_database_is_guarded_by_the_same_breaker(redis_url: str) -> None:
    shop = Shop(redis_url)
    async with shop.open():
        await shop.submit(10)
        await shop.turns(2)
        assert len(shop.ran) == 4
        shop.mode = "succeed"
        shop.cool_down()
        await until(lambda: len(shop.ran) == 10, "the probe succeeds, and the rest follows")
        await shop.turns(0)


async def test_files_in_the_lists_of_the_configuration_are_guarded_by_the_breaker_of_the_default_queue(
    redis_url: str,
) -> None:
    """To their jobs these lists are queues with names of their own."""
    shop = Shop(redis_url)
    async with shop.open():
        await shop.submit(10, "jobqueue:low_priority")
        await until(lambda: shop.code("default") == 2, "four failures open it", 20)
        assert (len(shop.ran), shop.code("mail")) == (4, 0)
        shop.mode = "succeed"
        shop.cool_down()
        await until(lambda: len(shop.ran) == 10, "the probe succeeds, and the rest follows")
        await until(lambda: shop.code("default") == 0, "it closes", 20)


@ON_SQLITE_ALONE
async def test_all_slots_and_workers_of_a_process_have_one_probe_between_them(url: str) -> None:
    shop = Shop(url)
    async with shop.open(workers=2, concurrency=10):
        await shop.submit(100)
        await shop.turns(2)

        async def nothing_runs() -> bool:
            return all(state is not State.RUNNING for state, _ in await shop.states())

        await until(nothing_runs, "what was under way is over")
        failed = len(shop.ran)
        assert await shop.untouched() == 100 - failed > 0, "what a claim under way brought was given back, uncharged"
        shop.mode = "wait, then fail"
        shop.cool_down()
        await shop.turns(1)
        await shop.submit(20, "default")  # so that all workers claim meanwhile
        await until(lambda: len(shop.ran) >= failed + 20, "all slots are busy")
        running = (await shop.states()).count((State.RUNNING, 1))
        assert (running, await shop.untouched()) == (1, 99 - failed)
        shop.gate.set()


@ON_SQLITE_ALONE
async def test_a_probe_that_says_nothing_leaves_its_place_to_the_next(url: str) -> None:
    """Permanently failed, or none there: the circuit stays half open until a probe says something."""
    shop = Shop(url)
    async with shop.open():
        await shop.submit(4)
        await shop.turns(2)
        shop.cool_down()
        await shop.turns(1)  # the queue is empty
        shop.mode = "fail permanently"
        await shop.submit(1)
        await shop.runs(5)
        assert shop.code() == 1
        shop.mode = "succeed"
        await shop.submit(3)
        await shop.runs(8)
        assert shop.code() == 0


@ON_SQLITE_ALONE
async def test_permanent_failures_and_a_breaker_that_is_off_keep_the_queue_claimed(url: str) -> None:
    shop = Shop(url)
    shop.mode = "fail permanently"
    async with shop.open():
        await shop.submit(12)
        await until(lambda: len(shop.ran) == 12, "each job runs")
        assert shop.code() == 0
    shop.mode = "fail"
    async with shop.open(circuit_breaker=False):
        await shop.submit(50)
        await until(lambda: len(shop.ran) == 62, "each job runs")


@ON_SQLITE_ALONE
async def test_a_worker_that_ends_with_the_probe_in_hand_leaves_it_to_the_others(url: str) -> None:
    shop = Shop(url)
    async with shop.open():
        await shop.submit(5)
        await shop.turns(2)
        shop.mode = "wait, then fail"
        shop.cool_down()
        await shop.runs(5)
    shop.mode = "succeed"
    async with shop.open():
        await shop.runs(6)
        await shop.turns(0)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ("on", "circuit_breaker"),
        ({"threshold": 0.5}, "circuit_breaker"),
        ({"failure_threshold": 0}, "failure_threshold"),
        ({"failure_threshold": True}, "failure_threshold"),
        ({"min_samples": 1.5}, "min_samples"),
        ({"window": "soon"}, "window"),
        ({"cooldown_period": 0}, "cooldown_period"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(tmp_path: object, wrong: Any, name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        Queue(f"sqlite:///{tmp_path}/jobs.db").worker(circuit_breaker=wrong)
