"""A recovery leaves leases alone whose living workers may not have had time to renew them."""

from __future__ import annotations

from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
from euterpe.model.state import State
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import SECOND, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import TABLES, needs


class Turns(HeartbeatTurns):
    """Turns on a clock that a test moves. `waits_us`: so long every statement waits for a lock from now on."""

    def __init__(self, lease_s: int = 60) -> None:
        self.now_us = self.waits_us = 0
        super().__init__(lambda: self.now_us, gap_us=20 * SECOND, lease_us=lease_s * SECOND)

    def longest_us(self) -> int:
        longest_us = super().longest_us()
        self.now_us += self.waits_us
        return longest_us

    def write_for(self, seconds: int) -> None:
        for _ in range(seconds):
            self.wrote()
            self.now_us += SECOND
        self.wrote()


async def test_a_lease_that_expired_in_a_break_is_taken_back_after_half_of_it(
    store: SqlStore, clock: FrozenClock
) -> None:
    lost = await taken(store)
    clock.advance(seconds=90)
    turns = Turns()
    turns.write_for(29)
    assert (await store.sweeps.recover(turns)).reclaimed == 0
    turns.write_for(1)
    assert (await store.sweeps.recover(turns)).reclaimed == 1
    assert (await store.get(lost.job.id)).state is State.RETRYING


@needs(TABLES)
async def test_every_lease_waits_for_half_of_its_own_length(store: SqlStore, clock: FrozenClock) -> None:
    long, short = await taken(store, "long"), await taken(store, "short", visibility_us=20 * SECOND)
    clock.advance(seconds=90)
    turns = Turns()
    turns.write_for(10)
    assert (await store.sweeps.recover(turns)).reclaimed == 1
    assert (await store.get(short.job.id)).state is State.RETRYING
    assert (await store.get(long.job.id)).state is State.RUNNING


@needs(TABLES)
async def test_a_recovery_that_waited_for_a_lock_takes_nothing_back(store: SqlStore, clock: FrozenClock) -> None:
    await taken(store)
    clock.advance(seconds=90)
    turns = Turns()
    turns.write_for(100)
    turns.waits_us = 30 * SECOND
    assert (await store.sweeps.recover(turns)).reclaimed == 0
    turns.waits_us = 0
    turns.write_for(30)
    assert (await store.sweeps.recover(turns)).reclaimed == 1


async def test_a_worker_that_renews_in_the_meantime_keeps_its_job(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    clock.advance(seconds=90)
    turns = Turns()
    turns.write_for(20)
    assert (await store.sweeps.recover(turns)).reclaimed == 0
    assert (await store.heartbeat([claim.lease]))[0].alive
    turns.write_for(100)
    assert (await store.sweeps.recover(turns)).reclaimed == 0
    assert (await store.get(claim.job.id)).state is State.RUNNING
