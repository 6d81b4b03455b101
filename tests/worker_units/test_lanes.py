"""How many exchanges of a worker are under way at once: two, and one where two would be small."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from euterpe.model.claims.exchange import COMPLETED, ClaimRequest, HeartbeatReply, ProgressUpdate, Report, SettleResult
from euterpe.model.job import Claim, Lease
from euterpe.wakeups.local import LocalWakeups
from euterpe.worker.claiming.prefetch import FEW_AHEAD
from euterpe.worker.handling.handlers import Handlers, handler_of
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from tests.model.samples import a_job
from tests.worker.floor import until
from tests.worker.pacing import Eager

HOUR_S = 3600.0


class Turn:
    """An exchange that waits to be answered."""

    def __init__(self, settles: int, request: ClaimRequest | None) -> None:
        self.settles = settles
        self.request = request
        self.answer: asyncio.Future[list[Claim]] = asyncio.get_running_loop().create_future()


class Store:
    """A long line of jobs, of which an exchange gets some when the test says so."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._jobs = 0

    def bring(self, turn: Turn, count: int, **said: object) -> None:
        claims = []
        for _ in range(count):
            self._jobs += 1
            job = a_job(type="noop", payload=b"{}", seq=self._jobs, id=f"job-{self._jobs}", claim_version=1, **said)
            claims.append(Claim(job, Lease(job.id, 1, 0)))
        turn.answer.set_result(claims)

    def bring_all(self, turn: Turn) -> None:
        assert turn.request is not None
        self.bring(turn, turn.request.total)

    async def exchange(
        self, finished: Sequence[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        self.turns.append(turn := Turn(len(finished), request))
        return [COMPLETED] * len(finished), await turn.answer

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        raise NotImplementedError

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = 0) -> list[HeartbeatReply]:
        return [HeartbeatReply(lease, alive=True) for lease in leases]

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        raise NotImplementedError

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        raise NotImplementedError

    async def settle(self, finished: Sequence[Report]) -> list[SettleResult]:
        raise NotImplementedError


class Bench:
    """A worker with two slots in a long line of jobs, each of which ends when the test says so."""

    def __init__(self) -> None:
        self.store = Store()
        self.permits = asyncio.Semaphore(0)
        self.ended = 0

    @asynccontextmanager
    async def at_work(self, ahead: int) -> AsyncIterator[Turn]:
        """Both slots are taken, jobs wait in the buffer, and an exchange for more of them is under way."""

        async def noop() -> None:
            await self.permits.acquire()
            self.ended += 1

        async with self.working(noop, slots=2, ahead=ahead):
            for number in range(2):
                self.store.bring_all(await self.turn(number))
            yield await self.turn(2)

    @asynccontextmanager
    async def working(self, noop: Callable[[], Awaitable[None]], *, slots: int, ahead: int) -> AsyncIterator[None]:
        handlers = Handlers()
        handlers.add(handler_of("noop", noop))
        settings = WorkerSettings(worker_id="w:1", concurrency=slots, poll_s=HOUR_S, grace_s=0.0)
        worker = WorkerLoop(self.store, handlers, settings, wakeups=LocalWakeups(), pace=Eager(ahead, "noop"))
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop_at_once()
            while not running.done():
                for turn in self.store.turns:
                    if not turn.answer.done():
                        turn.answer.set_result([])
                await asyncio.sleep(0)
            await running

    async def turn(self, number: int) -> Turn:
        await until(lambda: len(self.store.turns) > number, "an exchange")
        return self.store.turns[number]

    async def end(self, count: int) -> None:
        """So many jobs end, and what can happen then without an answer of the store happens."""
        wanted = self.ended + count
        for _ in range(count):
            self.permits.release()
        await until(lambda: self.ended == wanted, "the end of the jobs")
        for _ in range(100):
            await asyncio.sleep(0)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("euterpe.worker.loop.OTHER_LANE_S", HOUR_S)
    monkeypatch.setattr("euterpe.worker.attempts.PATIENCE_S", HOUR_S)
    return Bench()


async def test_where_two_would_be_small_what_ended_waits_for_the_exchange_under_way(bench: Bench) -> None:
    async with bench.at_work(ahead=10) as under_way:
        await bench.end(7)
        assert len(bench.store.turns) == 3, "it waits for the other lane"
        bench.store.bring_all(under_way)
        together = await bench.turn(3)
        assert together.settles == 7
        assert together.request is not None
        assert together.request.prefetch > 5, "it asks for more than one lane's half"


async def test_an_exchange_that_is_held_up_holds_up_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.worker.loop.OTHER_LANE_S", 0.0)
    async with bench.at_work(ahead=10):
        await bench.end(1)
        assert (await bench.turn(3)).settles == 1


async def test_two_are_under_way_where_both_are_large(bench: Bench) -> None:
    async with bench.at_work(ahead=FEW_AHEAD + 1):
        await bench.end(1)
        assert (await bench.turn(3)).settles == 1


async def test_two_are_under_way_where_the_line_is_short(bench: Bench) -> None:
    async with bench.at_work(ahead=10) as under_way:
        bench.store.bring(under_way, 1)
        await bench.end(1)
        await bench.turn(3)
        await bench.end(1)
        assert (await bench.turn(4)).settles == 1


@pytest.mark.parametrize(("said", "asks"), [({}, False), ({"concurrency_key": "k", "concurrency_limit": 5}, True)])
async def test_a_claim_that_ended_at_a_full_key_is_followed_by_one_ahead(
    bench: Bench, said: dict[str, object], asks: bool
) -> None:
    """What has ended makes room in the keys. A short line of other jobs is left to other workers."""
    async with bench.at_work(ahead=10) as under_way:
        assert under_way.request is not None
        bench.store.bring(under_way, under_way.request.total - 1, **said)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(bench.store.turns) == 3, "not before something has ended"
        await bench.end(3)
        request = (await bench.turn(3)).request
        ahead = 0 if request is None else request.prefetch
        assert (ahead > 0) is asks


@pytest.mark.parametrize("slots", [24, 100])
async def test_a_lane_settles_all_that_it_brought_before_it_asks_for_more(bench: Bench, slots: int) -> None:
    """Though the other lane, which is under way, has reserved half of the slots: else one settles much and the other
    little, and by turns the database and the worker wait for each other."""

    async def noop() -> None:
        pass

    async with bench.working(noop, slots=slots, ahead=FEW_AHEAD + 1):
        for number in range(8):
            brought = await bench.turn(number)
            assert brought.request is not None
            bench.store.bring_all(brought)
            settled = (await bench.turn(number + 2)).settles
            assert settled == brought.request.total, "a lane left jobs to the other"
