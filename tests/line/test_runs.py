"""The line: which jobs stand in one run of it, and in which order they are claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Outcome, Released, Success
from euterpe.model.reading.why import Reason
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, MINUTE, SECOND, failure, job, submit, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.line.acts import bulk, held, held_run, held_until_asked_again, runs

LOT = 32
LINE = "SELECT 1 FROM euterpe_line FOR UPDATE"
QUEUES = {"one queue": ("default",), "several queues": ("first", "default")}


async def taken_ids(store: SqlStore, limit: int = 1000, **asked: Any) -> list[str]:
    return [claim.job.id for claim in await take(store, limit, **asked)]


async def test_a_bulk_submit_stands_in_runs_of_250_and_a_lone_one_in_its_own(
    store: SqlStore, tables: PostgresTables
) -> None:
    await submit(store)
    await bulk(store, 600)
    assert await runs(tables) == [1, 250, 250, 100]


@pytest.mark.parametrize(
    "said",
    [{"callback_url": CALLBACK}, {"stages": ("claimed", "halfway")}, {"max_attempts": 1}],
    ids=lambda said: next(iter(said)),
)
async def test_jobs_stand_in_one_run_whatever_they_say(
    store: SqlStore, tables: PostgresTables, said: dict[str, Any]
) -> None:
    await bulk(store, LOT, **said)
    assert await runs(tables) == [LOT]


async def test_a_job_with_a_concurrency_key_stands_alone(store: SqlStore, tables: PostgresTables) -> None:
    await bulk(store, LOT, concurrency_key="k", concurrency_limit=3)
    assert await runs(tables) == [1, 1, 1]
    assert await tables.run("SELECT COUNT(*) FROM euterpe_key_line") == [(LOT - 3,)]


async def test_bulk_and_lone_jobs_are_claimed_in_one_order(store: SqlStore) -> None:
    first = await submit(store)
    early = await bulk(store, LOT)
    between = await submit(store)
    late = await bulk(store, LOT)
    last = await submit(store)
    urgent_lot = await bulk(store, LOT, priority=1)
    urgent = await submit(store, priority=0)
    told = await submit(store, priority=1)
    line = [urgent, *urgent_lot, told, first, *early, between, *late, last]
    claimed: list[str] = []
    for limit in (5, 1, LOT, 3, 1000):
        claimed += await taken_ids(store, limit)
    assert claimed == line


async def deal(tables: PostgresTables, hand: str) -> None:
    """Into other runs, as if several submits had drawn their numbers at the same time."""
    await tables.run("CREATE TEMPORARY TABLE kind AS SELECT * FROM euterpe_line LIMIT 1")
    await tables.run("DELETE FROM euterpe_line")
    await tables.run(
        "INSERT INTO euterpe_line (seq, expires_at, since, rank, jobs, priority, can_wait, tells, queue, type, key)"
        " SELECT MIN(j.seq), k.expires_at, k.since, k.rank, COUNT(*), k.priority, k.can_wait, k.tells, k.queue, k.type,"
        f" k.key FROM inbox_jobs AS j, kind AS k GROUP BY {hand}, 2, 3, 4, 6, 7, 8, 9, 10, 11"
    )


@pytest.mark.parametrize("queues", QUEUES.values(), ids=QUEUES)
async def test_short_runs_are_claimed_in_their_order_and_every_slot_is_filled(
    store: SqlStore, tables: PostgresTables, queues: tuple[str, ...]
) -> None:
    ids = await bulk(store, 96)
    await deal(tables, "j.seq / 3")
    turns: list[list[str]] = []
    while more := await taken_ids(store, 7, queues=queues):
        turns.append(more)
    assert [job_id for turn in turns for job_id in turn] == ids
    assert {len(turn) for turn in turns[:-1]} == {7}, "a short answer sends a worker to sleep with free slots"


async def test_a_claim_tells_of_every_job_what_its_own_submit_said(store: SqlStore, tables: PostgresTables) -> None:
    plain = await store.submit_many([job(payload=b"%d" % n) for n in range(LOT)])
    lone = await submit(store, tags={"lone": "1"})
    other = await store.submit_many(
        [job("other", payload=b"%d" % n, tags={"lot": "2"}, correlation_id="c", max_attempts=7) for n in range(LOT)]
    )
    waited_for = plain[5].job_id
    await tables.run(f"UPDATE inbox_jobs SET has_dependents = true WHERE id = '{waited_for}'")
    await store.cancel(other[3].job_id)
    claimed = {claim.job.id: claim.job for claim in await take(store, 1000)}
    assert claimed.keys() == {submitted.job_id for submitted in (*plain, *other)} - {other[3].job_id} | {lone}
    for job_id, told in claimed.items():
        assert told == await store.get(job_id)
    assert [job_id for job_id, told in claimed.items() if told.has_dependents] == [waited_for]


@pytest.mark.parametrize("queues", QUEUES.values(), ids=QUEUES)
async def test_a_claim_fills_its_slots_behind_a_gap_in_a_run(store: SqlStore, queues: tuple[str, ...]) -> None:
    ids = await bulk(store, 60)
    for job_id in ids[4:24]:
        await store.cancel(job_id)
    claimed = await taken_ids(store, 7, queues=queues)
    assert len(claimed) == 7
    while more := await taken_ids(store, 7, queues=queues):
        claimed += more
    assert claimed == [*ids[:4], *ids[24:]]


async def test_jobs_that_tell_when_they_begin_are_claimed_in_order(store: SqlStore) -> None:
    told = await submit(store, callback_url=CALLBACK)
    lot = await bulk(store, LOT)
    last = await submit(store, callback_url=CALLBACK)
    claimed: list[str] = []
    while more := await taken_ids(store, 5):
        claimed += more
    assert claimed == [told, *lot, last]


@pytest.mark.parametrize("queues", QUEUES.values(), ids=QUEUES)
async def test_a_job_whose_row_somebody_holds_is_claimed_when_it_is_let_go(
    store: SqlStore, tables: PostgresTables, fresh_postgres_url: str, queues: tuple[str, ...]
) -> None:
    lot = await bulk(store, LOT)
    async with held(fresh_postgres_url, lot[1]):
        assert await taken_ids(store, queues=queues) == [lot[0], *lot[2:]]
        assert await runs(tables) == [1]
    assert await taken_ids(store, queues=queues) == [lot[1]]
    assert await runs(tables) == []


@pytest.mark.parametrize("queues", QUEUES.values(), ids=QUEUES)
async def test_a_claim_that_meets_only_runs_which_others_hold_asks_again(
    store: SqlStore, fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch, queues: tuple[str, ...]
) -> None:
    """An empty answer would send the worker to sleep, and the queue is not empty."""
    lot = await bulk(store, LOT)
    async with held_until_asked_again(fresh_postgres_url, monkeypatch, LINE):
        assert await taken_ids(store, LOT, queues=queues) == lot
    lot = await bulk(store, LOT)
    request = ClaimRequest(worker_id="", limit=LOT, queues=queues)
    async with held_until_asked_again(fresh_postgres_url, monkeypatch, LINE):
        claims = await store.control_plane.claim_for(request, ["a"] * LOT)
    assert [claim.job.id for claim in claims] == lot


async def test_nothing_is_taken_from_behind_a_run_that_another_claim_holds(
    store: SqlStore, fresh_postgres_url: str
) -> None:
    """That may take less than all of it. A lone job that another claim holds is on its way, and is passed."""
    lone = await submit(store, priority=0)
    lot = await bulk(store, LOT)
    behind = await submit(store, priority=4)
    async with held_run(fresh_postgres_url, 0):
        assert await taken_ids(store, 3) == lot[:3]
    async with held_run(fresh_postgres_url, 2):
        assert await taken_ids(store) == [lone]
    assert await taken_ids(store) == [*lot[3:], behind]


async def test_jobs_that_come_back_stand_in_runs_of_neighbours(store: SqlStore, tables: PostgresTables) -> None:
    await bulk(store, 10)
    claims = await take(store)
    await store.settle([Report(claims[at], Released()) for at in (0, 1, 2, 5, 6, 9)])
    assert await runs(tables) == [3, 2, 1]


@pytest.mark.parametrize("first", [{}, {"callback_url": CALLBACK}], ids=["plain", "told"])
async def test_a_claim_of_what_can_wait_alone_waits_for_nobody(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, first: dict[str, Any]
) -> None:
    """Nothing is held: what comes next is not to wait in a worker. Nobody is to pause for that."""
    await submit(store, priority=0, max_attempts=1, **first)
    await bulk(store, LOT)

    async def pause(seconds: float) -> None:
        raise AssertionError(f"paused for {seconds} s")

    monkeypatch.setattr(asyncio, "sleep", pause)
    ahead = ClaimRequest(worker_id="", limit=0, prefetch=5, prefetch_types=("work",))
    assert await store.control_plane.claim_for(ahead, ["a"] * 5) == []
    assert (await store.exchange([], ahead))[1] == []


async def test_http_workers_claim_bulk_and_lone_jobs_in_one_order(store: SqlStore, tables: PostgresTables) -> None:
    first = await submit(store)
    lot = await bulk(store, LOT)
    last = await submit(store)
    claimed: list[str] = []
    request = ClaimRequest(worker_id="", limit=3)
    while more := await store.control_plane.claim_for(request, ["a", "b", "c"]):
        claimed += [claim.job.id for claim in more]
        rows = await tables.run(f"SELECT worker_id FROM inbox_jobs WHERE id = '{more[0].job.id}'")
        assert rows == [("a",)], "the most urgent one is for who waited longest"
    assert claimed == [first, *lot, last]


async def test_claims_beside_each_other_get_every_job_of_a_run_once(store: SqlStore, another: SqlStore) -> None:
    """A run that somebody else holds is passed over, and looked for again: its queue is not empty."""
    ids = await bulk(store, 2000)
    claimed: list[str] = []

    async def claim(by: SqlStore, limit: int) -> None:
        while more := await taken_ids(by, limit):
            claimed.extend(more)

    await asyncio.gather(*(claim(by, limit) for by in (store, another) for limit in (7, 60, 300)))
    assert len(claimed) == len(ids)
    assert sorted(claimed) == sorted(ids)


async def test_only_what_can_wait_is_taken_ahead_of_a_free_slot(store: SqlStore) -> None:
    lot = await bulk(store, LOT)
    once = await bulk(store, LOT, max_attempts=1)
    request = ClaimRequest(worker_id="w1", limit=2, prefetch=100, prefetch_types=("work",))
    assert [claim.job.id for claim in await store.claim(request)] == lot
    assert [claim.job.id for claim in await store.claim(request)] == once[:2]


async def test_a_paused_or_unknown_type_and_an_ended_lifetime_keep_a_run_from_being_claimed(
    store: SqlStore, clock: FrozenClock
) -> None:
    lot = await bulk(store, LOT, lifetime_us=MINUTE)
    other = await submit(store, "other")
    assert await taken_ids(store, types=("other",)) == [other]
    await store.pause("type", "work")
    assert await taken_ids(store) == []
    await store.resume("type", "work")
    await store.pause("queue", "default")
    assert await taken_ids(store) == []
    await store.resume("queue", "default")
    assert await taken_ids(store, 1) == lot[:1]
    clock.advance(seconds=60)
    assert await taken_ids(store) == []
    assert await store.sweeps.end_lifetimes() == LOT
    assert (await store.get(lot[-1])).state is State.DEAD_LETTER
    assert (await store.get(lot[0])).state is State.DEAD_LETTER


async def test_what_waits_in_runs_is_counted_and_found(store: SqlStore, clock: FrozenClock) -> None:
    lot = await bulk(store, LOT)
    clock.advance(seconds=5)
    stats = await store.stats()
    assert stats.by_state == {State.SCHEDULED: LOT}
    assert stats.oldest_age_us == {"default": 5 * SECOND}
    assert [row.id for row in await store.peek(["default"], 3)] == lot[:3]
    assert (await store.why(lot[7])).ahead == 7
    assert (await store.why(lot[0])).reason is not Reason.PARKED
    assert await store.unknown_types(["default"], ["other"]) == {"work": LOT}


async def test_a_claim_passes_over_what_left_its_run(store: SqlStore) -> None:
    lot = await bulk(store, LOT)
    await store.cancel(lot[3])
    await store.update(lot[9], Changes(priority=0))
    await store.update(lot[5], Changes(priority=4))
    after = await submit(store, depends_on=(lot[0],))
    claimed = await taken_ids(store, 20)
    assert lot[5] not in claimed
    assert claimed + await taken_ids(store) == [lot[9], *_without(lot, lot[3], lot[5], lot[9]), lot[5]]
    assert (await store.get(after)).state is State.PENDING


def _without(ids: Sequence[str], *gone: str) -> list[str]:
    return [job_id for job_id in ids if job_id not in gone]


@pytest.mark.parametrize("ends", [Success(), failure()], ids=["plain", "with effects"])
async def test_a_worker_without_a_free_slot_claims_ahead_what_is_first_in_line(
    store: SqlStore, another: SqlStore, ends: Outcome
) -> None:
    claim = await taken(another, "begun")
    urgent = await bulk(store, LOT, priority=0)
    await submit(store, priority=4)
    request = ClaimRequest(worker_id="w", limit=0, prefetch=4, prefetch_types=("work",))
    _, ahead = await another.exchange([Report(claim, ends)], request)
    assert [claim.job.id for claim in ahead] == urgent[:4]


@pytest.mark.parametrize("is_remote", [False, True], ids=["worker", "over HTTP"])
async def test_a_worker_without_a_free_slot_does_not_ask_again_for_what_cannot_wait(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    claim = await taken(store, "begun")
    await bulk(store, LOT)
    request = ClaimRequest(worker_id="w", limit=0, prefetch=4, prefetch_types=("another",))

    async def never(_: float) -> None:
        raise AssertionError("it waits for a run that nobody holds")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", never)
        if is_remote:
            assert await store.control_plane.claim_for(request, ["w"] * 4) == []
        else:
            results, ahead = await store.exchange([Report(claim, failure())], request)
            assert (results[0].accepted, ahead) == (True, [])
