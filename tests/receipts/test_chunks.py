"""Jobs of a bulk submit wait in chunks (ADR 017): which do, and in which order they are claimed beside all others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Outcome, Success
from euterpe.model.claims.presence import Presence, WorkerFacts
from euterpe.model.reading.why import Reason
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.submitting.uniform_batch import CHUNKED_FROM
from tests.conformance.acts import CALLBACK, MINUTE, SECOND, failure, job, submit, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.receipts.acts import bulk, chunks, chunks_held_until_asked_twice, held

LOT = 2 * CHUNKED_FROM
FULL_PATH = ("first", "default")
"""A claim of several queues goes by the full path."""


async def taken_ids(store: SqlStore, limit: int = 1000, **asked: Any) -> list[str]:
    return [claim.job.id for claim in await take(store, limit, **asked)]


async def test_a_bulk_submit_waits_in_chunks_of_250_and_a_lone_one_on_its_row(
    store: SqlStore, tables: PostgresTables
) -> None:
    await submit(store)
    await store.submit_many([job()] * (CHUNKED_FROM - 1))
    assert await chunks(tables) == []
    await bulk(store, 600)
    assert await chunks(tables) == [250, 250, 100]


@pytest.mark.parametrize(
    "said",
    [
        {"callback_url": CALLBACK},
        {"concurrency_key": "k", "concurrency_limit": 1},
        {"stages": ("claimed", "halfway")},
        {"delay_us": MINUTE},
    ],
    ids=lambda said: next(iter(said)),
)
async def test_what_is_not_plain_waits_on_its_row(
    store: SqlStore, tables: PostgresTables, said: dict[str, Any]
) -> None:
    await bulk(store, LOT, **said)
    assert await chunks(tables) == []


async def test_no_chunk_is_written_while_a_worker_of_an_older_release_is_alive(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    presence = Presence(worker_id="old", facts=WorkerFacts(queues=("default",)), silence_us=MINUTE)
    await store.workers.register([presence])
    await tables.run("UPDATE euterpe_workers SET knows_chunks = DEFAULT")  # as an older release registers
    await bulk(store, LOT)
    assert await chunks(tables) == []
    clock.advance(seconds=61)
    await bulk(store, LOT)
    assert await chunks(tables) == [LOT]
    await store.workers.register([presence])
    await bulk(store, LOT)
    assert await chunks(tables) == [LOT, LOT], "a worker of this release keeps nobody from writing chunks"


async def test_an_older_release_sees_nothing_to_claim_in_a_chunk(store: SqlStore, tables: PostgresTables) -> None:
    await bulk(store, LOT)
    assert await tables.run("SELECT COUNT(*) FROM inbox_jobs WHERE state || '' = 'scheduled' AND NOT parked") == [(0,)]


async def test_chunks_and_lone_jobs_are_claimed_in_one_order(store: SqlStore) -> None:
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


async def deal(tables: PostgresTables, ids: Sequence[str], hand: Callable[[int], int]) -> None:
    """Into other chunks, as if several submits had drawn their numbers at the same time."""
    firsts = {hand(place): job_id for place, job_id in reversed(list(enumerate(ids)))}
    await tables.run("CREATE TEMPORARY TABLE kind AS SELECT * FROM euterpe_ready LIMIT 1")
    await tables.run("DELETE FROM euterpe_ready")
    for place, job_id in enumerate(ids):
        await tables.run(f"UPDATE inbox_jobs SET chunk = '{firsts[hand(place)]}' WHERE id = '{job_id}'")
    await tables.run(
        "INSERT INTO euterpe_ready SELECT j.chunk, k.queue, k.type, k.priority, MIN(j.seq),"
        " k.expires_at, k.lease_us, k.waiting_since, COUNT(*), range_agg(int8range(j.seq, j.seq + 1))"
        " FROM inbox_jobs AS j, kind AS k GROUP BY 1, 2, 3, 4, 6, 7, 8"
    )


@pytest.mark.parametrize("queues", [("default",), FULL_PATH], ids=["one statement", "in full"])
async def test_chunks_of_submits_that_ran_beside_each_other_keep_their_order(
    store: SqlStore, tables: PostgresTables, queues: tuple[str, ...]
) -> None:
    """Their numbers are interleaved: what is left of a chunk may stand behind the front of a later one."""
    ids = await bulk(store, 6 * CHUNKED_FROM)
    await deal(tables, ids, lambda place: place % 3)
    turns: list[list[str]] = []
    while more := await taken_ids(store, 7, queues=queues):
        turns.append(more)
    assert [job_id for turn in turns for job_id in turn] == ids
    assert {len(turn) for turn in turns[:-1]} == {7}, "a short answer sends a worker to sleep with free slots"


async def test_a_claim_tells_of_every_job_what_its_own_submit_said(store: SqlStore, tables: PostgresTables) -> None:
    """What jobs of a chunk have in common is told once for those that stand side by side."""
    plain = await store.submit_many([job(payload=b"%d" % n) for n in range(LOT)])
    lone = await submit(store, tags={"lone": "1"})
    other = await store.submit_many(
        [job("other", payload=b"%d" % n, tags={"lot": "2"}, correlation_id="c", max_attempts=7) for n in range(LOT)]
    )
    waited_for = plain[5].job_id
    await tables.run(f"UPDATE inbox_jobs SET has_dependents = true WHERE id = '{waited_for}'")  # rule 7 of the ADR
    await store.cancel(other[3].job_id)
    claimed = {claim.job.id: claim.job for claim in await take(store, 1000)}
    assert claimed.keys() == {receipt.job_id for receipt in (*plain, *other)} - {other[3].job_id} | {lone}
    for job_id, told in claimed.items():
        assert told == await store.get(job_id)
    assert [job_id for job_id, told in claimed.items() if told.has_dependents] == [waited_for]


@pytest.mark.parametrize("queues", [("default",), FULL_PATH], ids=["one statement", "in full"])
async def test_what_is_left_of_a_chunk_waits_for_one_that_stands_between_behind_a_gap(
    store: SqlStore, tables: PostgresTables, queues: tuple[str, ...]
) -> None:
    ids = await bulk(store, 60)
    await deal(tables, ids, lambda place: 0 if place < 4 or place >= 40 else 1 if place < 24 else 2)
    for job_id in ids[4:24]:
        await store.cancel(job_id)
    claimed = await taken_ids(store, 7, queues=queues)
    assert len(claimed) == 7
    while more := await taken_ids(store, 7, queues=queues):
        claimed += more
    assert claimed == [*ids[:4], *ids[24:]]


async def test_the_full_path_claims_chunks_and_lone_jobs_in_order(store: SqlStore) -> None:
    told = await submit(store, callback_url=CALLBACK)
    lot = await bulk(store, LOT)
    last = await submit(store, callback_url=CALLBACK)
    claimed: list[str] = []
    while more := await taken_ids(store, 5):
        claimed += more
    assert claimed == [told, *lot, last]


async def test_a_claim_in_full_leaves_a_row_that_somebody_holds_in_its_chunk(
    store: SqlStore, tables: PostgresTables, fresh_postgres_url: str
) -> None:
    lot = await bulk(store, LOT)
    async with held(fresh_postgres_url, lot[1]):
        assert await taken_ids(store, queues=FULL_PATH) == [lot[0], *lot[2:]]
        assert await chunks(tables) == [1]
    assert await taken_ids(store, queues=FULL_PATH) == [lot[1]]
    assert await chunks(tables) == []


async def test_a_claim_that_meets_only_chunks_which_others_hold_asks_again(
    store: SqlStore, fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty answer would send the worker to sleep, and the queue is not empty."""
    request = ClaimRequest(worker_id="", limit=LOT)
    for queues in (("default",), FULL_PATH):
        lot = await bulk(store, LOT)
        async with chunks_held_until_asked_twice(fresh_postgres_url, monkeypatch):
            assert await taken_ids(store, LOT, queues=queues) == lot
    for queues in (("default",), FULL_PATH):
        lot = await bulk(store, LOT)
        async with chunks_held_until_asked_twice(fresh_postgres_url, monkeypatch):
            claims = await store.control_plane.claim_for(msgspec.structs.replace(request, queues=queues), ["a"] * LOT)
        assert [claim.job.id for claim in claims] == lot


@pytest.mark.parametrize("first", [{}, {"callback_url": CALLBACK}], ids=["fast path", "full path"])
async def test_a_claim_of_what_can_wait_alone_waits_for_no_chunk(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, first: dict[str, Any]
) -> None:
    """Nothing is held: what comes next is not to wait in a worker. Nobody is to pause for that."""
    await submit(store, priority=0, max_attempts=1, **first)
    await bulk(store, LOT)

    async def pause(seconds: float) -> None:
        raise AssertionError(f"paused for {seconds} s")

    monkeypatch.setattr(asyncio, "sleep", pause)
    ahead = ClaimRequest(worker_id="", limit=0, prefetch=5, prefetch_types=("work",))
    for _ in range(2):  # The second time it is known which path the queue takes.
        assert await store.control_plane.claim_for(ahead, ["a"] * 5) == []
        assert (await store.exchange([], ahead))[1] == []


async def test_http_workers_claim_chunks_and_lone_jobs_in_one_order(store: SqlStore, tables: PostgresTables) -> None:
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


async def test_claims_beside_each_other_get_every_job_of_a_chunk_once(store: SqlStore, another: SqlStore) -> None:
    """A chunk that somebody else holds is passed over, and looked for again: its queue is not empty."""
    ids = await bulk(store, 2000)
    claimed: list[str] = []

    async def claim(by: SqlStore, limit: int) -> None:
        while more := await taken_ids(by, limit):
            claimed.extend(more)

    await asyncio.gather(*(claim(by, limit) for by in (store, another) for limit in (7, 60, 300)))
    assert len(claimed) == len(ids)
    assert sorted(claimed) == sorted(ids)


async def test_jobs_with_one_attempt_do_not_wait_in_chunks(store: SqlStore, tables: PostgresTables) -> None:
    """A handler's own REPEATABLE READ transaction may meet the claim's way onto its row, and costs an attempt then."""
    await bulk(store, LOT, max_attempts=1)
    assert await tables.run("SELECT 1 FROM euterpe_ready") == []


async def test_only_what_can_wait_is_taken_ahead_of_a_free_slot(store: SqlStore) -> None:
    lot = await bulk(store, CHUNKED_FROM)
    once = await bulk(store, CHUNKED_FROM, max_attempts=1)
    request = ClaimRequest(worker_id="w1", limit=2, prefetch=100, prefetch_types=("work",))
    assert [claim.job.id for claim in await store.claim(request)] == lot
    assert [claim.job.id for claim in await store.claim(request)] == once[:2]


async def test_a_paused_or_unknown_type_and_an_ended_lifetime_keep_a_chunk_from_being_claimed(
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


async def test_what_waits_in_chunks_is_counted_and_found_as_what_waits_on_rows(
    store: SqlStore, clock: FrozenClock
) -> None:
    lot = await bulk(store, LOT)
    clock.advance(seconds=5)
    stats = await store.stats()
    assert stats.by_state == {State.SCHEDULED: LOT}
    assert stats.oldest_age_us == {"default": 5 * SECOND}
    assert [row.id for row in await store.peek(["default"], 3)] == lot[:3]
    assert (await store.why(lot[7])).ahead == 7
    assert (await store.why(lot[0])).reason is not Reason.PARKED
    assert await store.unknown_types(["default"], ["other"]) == {"work": LOT}


async def test_whoever_changes_a_job_takes_it_out_of_its_chunk(store: SqlStore, tables: PostgresTables) -> None:
    lot = await bulk(store, LOT)
    await store.cancel(lot[3])
    await store.update(lot[9], Changes(priority=0))
    after = await submit(store, depends_on=(lot[0],))
    assert await chunks(tables) == [LOT - 3]
    assert await taken_ids(store) == [lot[9], *_without(lot, lot[3], lot[9])]
    assert (await store.get(after)).state is State.PENDING


def _without(ids: Sequence[str], *gone: str) -> list[str]:
    return [job_id for job_id in ids if job_id not in gone]


@pytest.mark.parametrize("ends", [Success(), failure()], ids=["in one statement", "in full"])
async def test_a_worker_without_a_free_slot_claims_ahead_what_is_first_in_line(
    store: SqlStore, another: SqlStore, ends: Outcome
) -> None:
    """Whether its process has met chunks in this queue or not."""
    claim = await taken(another, "begun")
    urgent = await bulk(store, CHUNKED_FROM, priority=0)
    await submit(store, priority=4)
    request = ClaimRequest(worker_id="w", limit=0, prefetch=4, prefetch_types=("work",))
    _, ahead = await another.exchange([Report(claim, ends)], request)
    assert [claim.job.id for claim in ahead] == urgent[:4]


@pytest.mark.parametrize("is_remote", [False, True], ids=["in full", "over HTTP"])
async def test_a_worker_without_a_free_slot_does_not_ask_again_for_chunks_that_cannot_wait(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    claim = await taken(store, "begun")
    await bulk(store, CHUNKED_FROM)
    request = ClaimRequest(worker_id="w", limit=0, prefetch=4, prefetch_types=("another",))

    async def never(_: float) -> None:
        raise AssertionError("it waits for chunks that nobody holds")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", never)
        if is_remote:
            assert await store.control_plane.claim_for(request, ["w"] * 4) == []
        else:
            results, ahead = await store.exchange([Report(claim, failure())], request)
            assert (results[0].accepted, ahead) == (True, [])
