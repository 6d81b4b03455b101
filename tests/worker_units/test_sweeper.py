"""What a sweep ends may have a callback: whoever delivers is told at once and need not find out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import pytest

from euterpe.backends.engines import connect
from euterpe.model.bulk import Action, BulkOrder, BulkProgress, OperationState
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.reading.job_query import parse_query
from euterpe.model.retention import Swept
from euterpe.model.submitting.submission import Submission
from euterpe.ports import OUTBOX_CHANNEL
from euterpe.stores.remote.exchange import RemoteExchange
from euterpe.stores.remote.session import ControlPlaneSession
from euterpe.stores.remote.store import RemoteSweeps
from euterpe.wakeups.local import LocalWakeups
from euterpe.worker.sweeper import Sweeper


class Recovering(RemoteSweeps):
    """Sweeps whose recovery did this."""

    def __init__(self, did: Swept) -> None:
        super().__init__(RemoteExchange(ControlPlaneSession("http://127.0.0.1")))
        self._did = did
        self.looked = asyncio.Event()

    async def recover(self) -> Swept:
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
