"""What a sweep ends may have a callback: whoever delivers is told at once and need not find out."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from euterpe.backends.engines import connect
from euterpe.model.bulk import Action, BulkOrder, BulkProgress, OperationState
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.reading.job_query import parse_query
from euterpe.model.retention import Swept
from euterpe.model.submitting.submission import Submission
from euterpe.ports import OUTBOX_CHANNEL
from euterpe.runtime.clocks import awake_or_not_s
from euterpe.stores.remote.exchange import RemoteExchange
from euterpe.stores.remote.session import ControlPlaneSession
from euterpe.stores.remote.store import RemoteSweeps
from euterpe.stores.sql.maintenance import sweeps
from euterpe.wakeups.local import LocalWakeups
from euterpe.worker.sweeper import Sweeper


class Recovering(RemoteSweeps):
    """Sweeps whose recovery did this."""

    def __init__(self, did: Swept) -> None:
        super().__init__(RemoteExchange(ControlPlaneSession("http://127.0.0.1")))
        self._did = did
        self.looked = asyncio.Event()

    async def recover(self, turns: HeartbeatTurns | None = None) -> Swept:
        return self._did

    async def promote(self) -> list[str]:
        return []

    async def next_due_in_us(self) -> int | None:
        self.looked.set()
        return None


class Heard(LocalWakeups):
    def __init__(self) -> None:
        super().__init__()
        self.channels: list[str] = []

    def announce(self, queues: Iterable[str]) -> None:
        self.channels += queues


@pytest.mark.parametrize(
    ("did", "told"),
    [
        (Swept([], 1, 0, 0, 0, 0), [OUTBOX_CHANNEL]),
        (Swept([], 0, 1, 0, 0, 0), [OUTBOX_CHANNEL]),
        (Swept([], 0, 0, 1, 0, 0), [OUTBOX_CHANNEL]),
        (Swept([], 0, 0, 0, 0, 1), [OUTBOX_CHANNEL]),
        (Swept([], 0, 0, 0, 3, 0), []),
        (Swept([], 0, 0, 0, 0, 0), []),
    ],
    ids=["reclaimed", "dead_lettered", "lifetime", "event", "unparked", "nothing"],
)
async def test_what_a_sweep_ended_is_told_to_whoever_delivers(did: Swept, told: list[str]) -> None:
    store, heard = Recovering(did), Heard()
    sweeper = Sweeper(store, heard)
    sweeping = asyncio.get_running_loop().create_task(sweeper.run())
    await store.looked.wait()
    sweeper.stop()
    await sweeping
    assert heard.channels == told


async def test_a_fleet_does_not_keep_step_but_no_recovery_is_late() -> None:
    """A pause is the interval, a quarter more or less; lost jobs are looked for at the third at the latest."""
    nothing = Swept([], 0, 0, 0, 0, 0)
    pauses, recoveries = [], []
    for _ in range(200):
        sweeper = Sweeper(Recovering(nothing), Heard(), interval_s=1000.0)
        began = time.monotonic()
        pauses.append(await sweeper._pass())
        recoveries.append((sweeper._recover_at - began, sweeper._recover_at - time.monotonic()))
    assert all(0.75 * 1000 <= pause <= 1.25 * 1000 for pause in pauses)
    assert max(pauses) - min(pauses) > 0.3 * 1000
    assert all(since_before >= 0.6 * 3000 and since_after <= 3000 for since_before, since_after in recoveries)
    assert max(recoveries)[0] - min(recoveries)[0] > 0.2 * 3000


async def test_the_sweeper_works_off_an_operation_without_a_pause_and_tells_the_queues(sqlite_url: str) -> None:
    backend = connect(sqlite_url)
    await backend.open()
    store = backend.store
    await store.submit_many([Submission(type="t", queue=f"q{n % 2}") for n in range(250)])
    claims = await store.claim(ClaimRequest(worker_id="w", limit=250, queues=("q0", "q1")))
    await store.settle([Report(claim, Failed(Failure(Category.PERMANENT, "no luck"))) for claim in claims])
    search = parse_query("state:failed", await store.now_us())
    order = BulkOrder(action=Action.RETRY, query="state:failed", search=search, ordered_by="local")
    operation, _ = await store.operations.order(order)
    heard = Heard()
    sweeper = Sweeper(store.sweeps, heard, interval_s=3_600)
    sweeping = asyncio.get_running_loop().create_task(sweeper.run())
    async with asyncio.timeout(30):  # with a pause between batches it would take hours
        while (await store.operations.get(operation.id)).state is OperationState.RUNNING:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    sweeper.stop()
    await sweeping
    assert {"q0", "q1", OUTBOX_CHANNEL} <= set(heard.channels)
    assert (await store.stats()).by_state == {"scheduled": 250}
    await backend.close()


class Idle(Recovering):
    """Counts how often it was asked to work on operations."""

    def __init__(self) -> None:
        super().__init__(Swept([], 0, 0, 0, 0, 0))
        self.works = 0
        self.at_work = asyncio.Event()

    async def work_operations(self) -> BulkProgress:
        self.works += 1
        self.at_work.set()
        return BulkProgress()


async def test_an_operation_that_is_ordered_wakes_the_sweeper_at_once(sqlite_url: str) -> None:
    backend = connect(sqlite_url)
    await backend.open()
    store, sweeps = backend.store, Idle()
    await store.submit(Submission(type="t"))
    sweeper = Sweeper(sweeps, backend.wakeups, interval_s=3_600)
    sweeping = asyncio.get_running_loop().create_task(sweeper.run())
    async with asyncio.timeout(60):
        await sweeps.looked.wait()  # It sleeps for an hour now.
        for round_ in (2, 3):
            sweeps.at_work.clear()
            search = parse_query("type:t", await store.now_us())
            await store.operations.order(
                BulkOrder(action=Action.CANCEL, query="type:t", search=search, ordered_by="local")
            )
            await sweeps.at_work.wait()
            assert sweeps.works == round_
    sweeper.stop()
    await sweeping
    await backend.close()


@pytest.mark.parametrize("part", ["promote", "recover", "next_due_in_us"])
async def test_a_part_of_a_pass_that_fails_stops_no_other_part(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps, asked = Idle(), list[str]()

    def noting(name: str) -> Callable[..., Awaitable[None]]:
        real = getattr(sweeps, name)

        async def noted(*given: Any) -> Any:
            asked.append(name)
            if name == part:
                raise ValueError("an error that nobody expected")
            return await real(*given)

        return noted

    for name in ("promote", "recover", "next_due_in_us", "work_operations"):
        monkeypatch.setattr(sweeps, name, noting(name))
    await Sweeper(sweeps, Heard())._pass()
    assert asked == ["promote", "recover", "work_operations", "next_due_in_us"]


@pytest.mark.parametrize("part", ["dead_letter_spent", "end_lifetimes", "unpark_idle", "watch_dependencies"])
async def test_a_part_of_a_recovery_that_fails_stops_no_other_part(
    part: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_us = 1_000_000_000
    backend = connect(sqlite_url, clock=lambda: now_us)
    await backend.open()
    store = backend.store
    await store.submit(Submission(type="t"))
    await store.claim(ClaimRequest(worker_id="w", limit=1))
    now_us *= 2

    async def failing() -> int:
        raise ValueError(part)

    monkeypatch.setattr(store.sweeps, part, failing)
    swept = await store.sweeps.recover()
    assert swept.reclaimed == 1
    assert [str(error) for error in swept.failures] == [part]
    await backend.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no clock of the boot")
async def test_a_crowd_that_falls_due_together_is_promoted_in_goes_of_a_bounded_size(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery has its turn between two of them."""
    monkeypatch.setattr(sweeps, "BATCH", 5)
    monkeypatch.setattr(sweeps, "PROMOTED_AT_ONCE", 2)
    store = connect(sqlite_url).store
    await store.open()
    try:
        await store.submit_many([Submission(type="noop", payload=b"{}", delay_us=1) for _ in range(12)])
        assert len(await store.sweeps.promote()) == 10
        assert await store.sweeps.next_due_in_us() == 0
        assert len(await store.sweeps.promote()) == 2
    finally:
        await store.close()


def test_the_time_in_suspend_counts() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= awake_or_not_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert getattr(awake_or_not_s, "args", None) == (time.CLOCK_BOOTTIME,), "both clocks agree until a first suspend"


async def test_a_machine_that_was_suspended_takes_nothing_back_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended_s = 0.0
    monkeypatch.setattr("euterpe.worker.sweeper.awake_or_not_s", lambda: time.monotonic() + suspended_s)
    given = list[HeartbeatTurns]()

    class Noting(Recovering):
        async def recover(self, turns: HeartbeatTurns | None = None) -> Swept:
            assert turns is not None
            given.append(turns)
            return self._did

    sweeper = Sweeper(Noting(Swept([], 0, 0, 0, 0, 0)), Heard())
    for _ in range(100):
        suspended_s += 1.0
        await sweeper._pass()
    assert given[0].had()
    suspended_s += 3600.0
    await sweeper._pass()
    assert not given[0].had()
