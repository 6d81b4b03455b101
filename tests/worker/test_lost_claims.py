"""Jobs of a claim whose answer was lost run at once, uncharged: their worker asks what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report, SettleResult
from euterpe.model.errors import CommitUnknown, StoreUnavailable, UnprocessableRow
from euterpe.model.job import Claim, JobRow
from euterpe.model.state import State
from euterpe.queue.queue import Queue, core_of
from euterpe.stores.sql.jobs import usable_claims
from euterpe.worker.claiming.lost_claims import TRIES, LostClaims
from euterpe.worker.loop import WorkerLoop
from euterpe.worker.settings import WorkerSettings
from tests.worker.floor import in_state, until


class Cut:
    """A queue whose jobs wait for the end of the test, and a worker whose next answer to a claim can get lost."""

    def __init__(self, url: str) -> None:
        self.queue = Queue(url)
        self.begun: list[int] = []
        self.all_may_end = asyncio.Event()
        self.loses_answers = False
        self.stops = False
        self.looking = self.most_looking = 0

        @self.queue.job("once", max_attempts=1)
        async def once(n: int) -> None:
            self.begun.append(n)
            await self.all_may_end.wait()

    @asynccontextmanager
    async def at_work(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkerLoop]:
        async with self.queue:
            store = core_of(self.queue).store
            exchange = store.exchange

            async def cut(
                finished: Sequence[Report], request: ClaimRequest | None
            ) -> tuple[list[SettleResult], list[Claim]]:
                verdicts, claims = await exchange(finished, request)
                if claims and self.loses_answers:
                    self.loses_answers = False
                    if self.stops:
                        worker.stop_at_once()
                    raise CommitUnknown("the connection was cut")
                return verdicts, claims

            async def release(worker_id: str, known: Collection[tuple[str, int]]) -> int:
                self.looking += 1
                self.most_looking = max(self.looking, self.most_looking)
                worker._wake()  # The other lane has its chance to look too.
                for _ in range(20):
                    await asyncio.sleep(0)
                try:
                    return await store.sweeps.release_unbegun(worker_id, known)
                finally:
                    self.looking -= 1

            monkeypatch.setattr(store, "exchange", cut)
            monkeypatch.setattr("euterpe.runtime.outage.Outage.pause_after", lambda *_: 0.0)
            worker = WorkerLoop(
                store,
                core_of(self.queue).handlers,
                WorkerSettings(worker_id="w:1", concurrency=8, poll_s=0.05),
                wakeups=core_of(self.queue).wakeups,
                release_unbegun=release,
            )
            running = asyncio.create_task(worker.run())
            try:
                yield worker
            finally:
                self.all_may_end.set()
                worker.stop()
                await running

    async def row(self, job_id: str) -> JobRow:
        return await core_of(self.queue).get(job_id)


async def test_what_a_lost_answer_brought_runs_and_what_runs_already_goes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(url)
    async with cut.at_work(monkeypatch):
        before = await cut.queue.submit("once", {"n": 0})
        await in_state(cut.queue, before, State.RUNNING)
        cut.loses_answers = True
        lost = await cut.queue.submit_many([("once", {"n": n}) for n in (1, 2)])
        await until(
            lambda: {1, 2} <= set(cut.begun) or cut.most_looking > 1, "the jobs of the lost claim to begin", within_s=10
        )
        assert cut.most_looking == 1, "the lanes look one after the other"
        cut.all_may_end.set()
        for job in (before, *lost):
            await in_state(cut.queue, job, State.COMPLETED)
        assert sorted(cut.begun) == [0, 1, 2]
        assert cut.most_looking == 1, "the lanes look one after the other"
        rows = [await cut.row(job.id) for job in (before, *lost)]
        assert [(row.attempt_count, row.release_count) for row in rows] == [(1, 0), (1, 1), (1, 1)]


async def test_a_worker_that_stops_gives_back_what_a_lost_answer_brought(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(url)
    async with cut.queue:
        job = await cut.queue.submit("once", {"n": 1})
    cut.loses_answers = cut.stops = True
    async with cut.at_work(monkeypatch):

        async def row_after() -> JobRow | None:
            row = await cut.row(job.id)
            return row if row.release_count else None

        row = await until(row_after, "the job of the lost claim to be given back", within_s=10)
    assert (row.state, row.attempt_count, cut.begun) == (State.SCHEDULED, 0, [])


async def test_a_database_that_goes_away_before_the_results_are_read_costs_no_attempt(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(url)
    cut.all_may_end.set()
    read = usable_claims._look_up
    failures = [StoreUnavailable("away")]

    def look_up(dependents: Sequence[Claim]) -> Any:
        if failures:
            raise failures.pop()
        return read(dependents)

    monkeypatch.setattr(usable_claims, "_look_up", look_up)
    # As of a job whose dependencies did not come along with its claim.
    monkeypatch.setattr(usable_claims, "_lacks_dependencies", lambda job: job.dependency is not None)
    async with cut.at_work(monkeypatch):
        first = await cut.queue.submit("once", {"n": 1})
        second = await cut.queue.submit("once", {"n": 2}, depends_on=[first])
        await in_state(cut.queue, second, State.COMPLETED)
    assert (failures, cut.begun) == ([], [1, 2])


class Store:
    """Notes what it is asked to give back, or fails."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, set[tuple[str, int]]]] = []
        self.refusal: Exception | None = None

    async def release_unbegun(self, worker_id: str, begun: Collection[tuple[str, int]]) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((worker_id, set(begun)))
        return 1


async def test_it_looks_again_after_a_second_since_the_server_may_have_been_at_it() -> None:
    store, now = Store(), [100.0]
    lost = LostClaims(store.release_unbegun, "w:1", lambda: {("job", 7)}, 60.0, lambda: now[0])
    assert not lost.is_due()
    lost.suspect()
    assert lost.is_due()
    await lost.look()
    assert not lost.is_due()
    assert lost.is_due(stopping=True)
    now[0] += 1.0
    assert lost.is_due()
    await lost.look()
    assert not lost.is_due(stopping=True)
    assert store.asked == [("w:1", {("job", 7)})] * 2


async def test_a_store_that_refuses_to_tell_does_not_keep_the_worker_from_claiming_for_ever() -> None:
    store = Store()
    store.refusal = UnprocessableRow("job", "payload")
    lost = LostClaims(store.release_unbegun, "w:1", set, 60.0)
    lost.suspect()
    for _ in range(TRIES):
        assert lost.is_due()
        with pytest.raises(UnprocessableRow):
            await lost.look()
    assert not lost.is_due(stopping=True)


async def test_a_store_that_is_away_is_asked_again_for_as_long_as_a_lease_lasts() -> None:
    store, now = Store(), [100.0]
    store.refusal = StoreUnavailable("away")
    lost = LostClaims(store.release_unbegun, "w:1", set, 60.0, lambda: now[0])
    lost.suspect()
    for _ in range(3 * TRIES):
        now[0] += 2.0
        assert lost.is_due(), "a failover takes longer than a few tries"
        with pytest.raises(StoreUnavailable):
            await lost.look()
    now[0] += 2.0
    with pytest.raises(StoreUnavailable):
        await lost.look()
    assert not lost.is_due(stopping=True), "what was lost is anybody's by now"
