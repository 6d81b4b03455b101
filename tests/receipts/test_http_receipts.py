"""Claims of HTTP workers stand on receipts, too (ADR 017): each lease has a token, which any process can check."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.claims.worker_reports import RECEIPT_MARK, TokenHeartbeat, TokenReport, hash_token
from euterpe.model.errors import StoreUnavailable
from euterpe.model.events.event import event_of
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.submitting.uniform_batch import CHUNKED_FROM
from tests.conformance.acts import CALLBACK, HOUR, MINUTE, SECOND, submit
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables
from tests.receipts.acts import bulk, chunks, held, receipts

LOT = CHUNKED_FROM
ONE = Success(b"1")
BROKEN = Failed(Failure(Category.TEMPORARY, "no", "no"))


@pytest.fixture
def on_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the test, claims stay on their receipts."""
    monkeypatch.setattr("euterpe.stores.sql.exchange.receipts.ON_ROWS_AFTER_S", 3600.0)


async def claim(store: SqlStore, limit: int = LOT, worker_id: str = "w1", **more: Any) -> list[Claim]:
    request = ClaimRequest(worker_id=worker_id, limit=limit, by_receipt=True, **more)
    return await store.control_plane.claim_for(request, [worker_id] * limit)


async def claimed(store: SqlStore, **said: Any) -> list[Claim]:
    await bulk(store, LOT, **said)
    return await claim(store)


def report(ended: Claim, outcome: Outcome = ONE, token: str | None = None) -> TokenReport:
    said = hashlib.sha256(repr(outcome).encode()).digest()
    lease = ended.lease
    return TokenReport(lease.job_id, lease.claim_version, hash_token(token or lease.token or ""), outcome, said)


async def told(store: SqlStore, claims: Sequence[Claim], outcome: Outcome = ONE) -> list[State | None]:
    return [reply.state for reply in await store.control_plane.finish([report(ended, outcome) for ended in claims])]


async def beat(store: SqlStore, kept: Claim, token: str | None = None) -> int | None:
    """When the lease ends now; None: it is gone."""
    said = TokenHeartbeat(kept.job.id, hash_token(token or kept.lease.token or ""), kept.lease.claim_version)
    (renewed,) = await store.control_plane.renew_leases([said], MINUTE)
    return None if renewed is None else renewed.expires_at


async def rows(tables: PostgresTables, columns: str) -> list[tuple[Any, ...]]:
    return await tables.run(f"SELECT DISTINCT {columns} FROM inbox_jobs")


@pytest.mark.usefixtures("on_receipts")
async def test_a_claim_writes_one_receipt_and_a_completion_writes_each_row_once(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    claims = await claimed(store)
    assert (len(claims), await receipts(tables), await chunks(tables)) == (LOT, 1, [])
    assert await rows(tables, "state, claim_version, xmax::text") == [("scheduled", 0, "0")]
    clock.advance(seconds=3)
    assert await told(store, claims) == [State.COMPLETED] * LOT
    done = await store.get(claims[0].job.id)
    assert (done.state, done.attempt_count, done.claim_version, done.worker_id) == (State.COMPLETED, 1, 1, "w1")
    assert (done.started_at, done.completed_at, done.result) == (claims[0].job.started_at, clock(), b"1")
    assert done.transitions == claims[0].job.transitions + 1
    assert await rows(tables, "chunk IS NULL") == [(False,)], "none was put onto its row first"
    (attempt,) = await store.attempts(done.id)
    assert (attempt.outcome, attempt.worker_id, attempt.attempt) == ("completed", "w1", 1)


@pytest.mark.usefixtures("on_receipts")
async def test_a_report_that_comes_again_gets_the_first_answer_and_any_other_is_refused(
    store: SqlStore, another: SqlStore
) -> None:
    claims = await claimed(store)
    assert await told(store, claims[:3]) == [State.COMPLETED] * 3
    for process in (store, another):
        assert await told(process, claims[:3]) == [State.COMPLETED] * 3
        assert await told(process, claims[:1], Success(b"2")) == [None], "another result"
        other = await process.control_plane.finish([report(claims[0], token=claims[1].lease.token)])
        assert other[0].state is None, "another token"
    two = await store.control_plane.finish([report(claims[3]), report(claims[3], Success(b"2")), report(claims[3])])
    assert [reply.state for reply in two] == [State.COMPLETED, None, State.COMPLETED]


@pytest.mark.usefixtures("on_receipts")
async def test_tokens_are_kept_as_hashes_and_each_lease_has_its_own(store: SqlStore, tables: PostgresTables) -> None:
    claims = await claimed(store)
    tokens = {ended.lease.token or "" for ended in claims}
    assert len(tokens) == LOT
    assert all(token.startswith(RECEIPT_MARK) and len(token) == len(RECEIPT_MARK) + 64 for token in tokens)
    ((stored,),) = await tables.run("SELECT token_hashes FROM euterpe_claims")
    assert sorted(stored[at : at + 32] for at in range(0, len(stored), 32)) == sorted(map(hash_token, tokens))


@pytest.mark.usefixtures("on_receipts")
async def test_nobody_renews_or_ends_a_lease_with_the_token_of_its_neighbour(
    store: SqlStore, another: SqlStore, tables: PostgresTables
) -> None:
    mine, neighbour, *_ = await claimed(store)
    for process in (store, another):
        for token in (neighbour.lease.token, "guess"):
            assert await beat(process, mine, token) is None
            for outcome in (ONE, BROKEN, Released()):
                (reply,) = await process.control_plane.finish([report(mine, outcome, token)])
                assert reply.state is None
    assert await rows(tables, "state, xmax::text") == [("scheduled", "0")], "a wrong token writes nothing"


@pytest.mark.usefixtures("on_receipts")
@pytest.mark.parametrize(("outcome", "state"), [(ONE, "completed"), (BROKEN, "retrying"), (Released(), "scheduled")])
async def test_another_process_ends_what_it_did_not_claim_and_answers_again(
    store: SqlStore, another: SqlStore, outcome: Outcome, state: str
) -> None:
    claims = await claimed(store)
    for _ in range(2):
        assert await told(another, claims, outcome) == [State(state)] * LOT
        assert await told(store, claims, outcome) == [State(state)] * LOT
    job = await store.get(claims[-1].job.id)
    assert (job.state, job.claim_version) == (State(state), 1)


@pytest.mark.usefixtures("on_receipts")
async def test_a_heartbeat_renews_a_lease_on_a_receipt_from_any_process(
    store: SqlStore, another: SqlStore, clock: FrozenClock
) -> None:
    first, second, *_ = await claimed(store)
    assert first.lease.expires_at == clock() + MINUTE
    clock.advance(seconds=30)
    for process, kept in ((store, first), (another, second)):
        assert await beat(process, kept) == clock() + MINUTE
        assert (await store.get(kept.job.id)).lease_expires_at == clock() + MINUTE
        assert await told(process, [kept]) == [State.COMPLETED]


@pytest.mark.usefixtures("on_receipts")
async def test_every_lease_finds_its_token_behind_gaps_and_other_chunks(
    store: SqlStore, another: SqlStore, tables: PostgresTables
) -> None:
    """The receipt has the hashes by the order of its numbers; jobs that left their chunk are not among them, and a row
    that is gone still has its number."""
    lots = [await bulk(store, LOT, priority=priority) for priority in (2, 1, 2)]
    gone = [lots[0][3], lots[0][4], lots[1][0], lots[2][LOT - 1]]
    for job_id in gone:
        await store.cancel(job_id)
    await tables.run(f"DELETE FROM inbox_jobs WHERE id = '{lots[2][5]}' RETURNING 1")
    lone = await submit(store)
    claims = await claim(store, 4 * LOT)
    expected = [*lots[1], *lots[0], *lots[2], lone]
    assert [c.job.id for c in claims] == [job_id for job_id in expected if job_id not in {*gone, lots[2][5]}]
    assert await receipts(tables) == 1
    assert None not in [await beat(another, kept) for kept in claims[::2]]
    assert await told(another, claims) == [State.COMPLETED] * len(claims)


@pytest.mark.usefixtures("on_receipts")
async def test_the_first_job_of_a_chunk_is_gone_and_the_others_still_have_their_tokens(
    store: SqlStore, another: SqlStore, tables: PostgresTables
) -> None:
    first, *ids = await bulk(store, LOT)
    await tables.run(f"DELETE FROM inbox_jobs WHERE id = '{first}' RETURNING 1")
    claims = await claim(store)
    assert [c.job.id for c in claims] == ids
    assert {c.lease.expires_at for c in claims} == {c.job.lease_expires_at for c in claims}
    assert await told(another, claims[:4]) == [State.COMPLETED] * 4
    assert await told(store, claims[4:]) == [State.COMPLETED] * (LOT - 5)


@pytest.mark.usefixtures("on_receipts")
async def test_past_its_deadline_an_attempt_under_a_receipt_is_refused_and_the_sweep_ends_it(
    store: SqlStore, another: SqlStore, clock: FrozenClock
) -> None:
    claims = await claimed(store, execution_timeout_us=10_000_000, visibility_us=HOUR)
    assert {c.lease.expires_at for c in claims} == {clock() + 10_000_000}
    assert (await store.get(claims[0].job.id)).lease_expires_at == clock() + 10_000_000
    clock.advance(seconds=10)
    assert await told(store, claims[:1]) == [State.COMPLETED], "to the last moment"
    clock.advance(us=1)
    for process in (store, another):
        assert await told(process, claims[1:3]) == [None, None]
        assert await beat(process, claims[1]) is None
    assert await another.sweeps.reclaim() == LOT - 1
    late = await another.get(claims[1].job.id)
    assert (late.state, late.attempt_count) == (State.RETRYING, 1)
    assert (await another.attempts(late.id))[0].outcome == "timeout"


@pytest.mark.usefixtures("on_receipts")
@pytest.mark.parametrize("said", [{"visibility_us": 7 * SECOND}, {"execution_timeout_us": 7 * SECOND}])
async def test_a_receipt_ends_with_the_first_of_its_leases(
    store: SqlStore, tables: PostgresTables, clock: FrozenClock, said: dict[str, int]
) -> None:
    await bulk(store, LOT)
    await bulk(store, LOT, **said)
    claims = await claim(store, 2 * LOT)
    assert min(c.lease.expires_at for c in claims) == clock() + 7 * SECOND
    assert await tables.run("SELECT expires_at FROM euterpe_claims") == [(clock() + 7 * SECOND,)]


@pytest.mark.usefixtures("on_receipts")
async def test_a_lost_worker_costs_its_jobs_one_attempt_when_their_leases_are_over(
    store: SqlStore, another: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    claims = await claimed(store)
    assert await another.sweeps.reclaim() == 0
    clock.advance(seconds=61)
    assert await another.sweeps.reclaim() == LOT
    assert await receipts(tables) == 0
    job = await another.get(claims[0].job.id)
    assert (job.state, job.attempt_count, job.claim_version) == (State.RETRYING, 1, 1)
    assert await told(store, claims[:1]) == [None], "its claim is over"


@pytest.mark.usefixtures("on_receipts")
async def test_a_cancel_is_told_by_the_next_heartbeat_and_force_ends_the_lease(store: SqlStore) -> None:
    asked, forced, *_ = await claimed(store)
    await store.cancel(asked.job.id)
    await store.cancel(forced.job.id, force=True)
    said = [TokenHeartbeat(c.job.id, hash_token(c.lease.token or ""), 1) for c in (asked, forced)]
    renewed, gone = await store.control_plane.renew_leases(said, MINUTE)
    assert renewed is not None
    assert renewed.cancel_requested
    assert gone is None
    assert await told(store, [forced]) == [None]
    assert await told(store, [asked]) == [State.COMPLETED]


@pytest.mark.usefixtures("on_receipts")
async def test_a_lease_whose_row_somebody_holds_is_not_called_gone(
    store: SqlStore, another: SqlStore, tables: PostgresTables, fresh_postgres_url: str
) -> None:
    mine, neighbour, *_ = await claimed(store)
    async with held(fresh_postgres_url, mine.job.id):
        for process in (store, another):
            assert await beat(process, mine) == mine.lease.expires_at
        assert await told(store, [neighbour]) == [State.COMPLETED]
        ending = asyncio.create_task(told(store, [mine]))
        async with asyncio.timeout(20):
            while not await tables.run("SELECT 1 FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110  # the server does not tell
                await asyncio.sleep(0.01)
    assert await ending == [State.COMPLETED]


@pytest.mark.usefixtures("on_receipts")
async def test_dependents_that_came_meanwhile_are_released(store: SqlStore) -> None:
    claims = await claimed(store)
    dependent = await submit(store, depends_on=(claims[0].job.id,))
    assert await told(store, claims) == [State.COMPLETED] * LOT
    assert (await store.get(dependent)).state is State.SCHEDULED


@pytest.mark.usefixtures("on_receipts")
async def test_a_completion_writes_the_event_that_its_row_tells_once(
    store: SqlStore, another: SqlStore, tables: PostgresTables, clock: FrozenClock
) -> None:
    await bulk(store, LOT, callback_url=CALLBACK, callback_events="terminal", correlation_id="c")
    lone = await submit(store)
    claims = await claim(store, LOT + 1)
    assert (claims[-1].job.id, await receipts(tables)) == (lone, 1)
    clock.advance(seconds=3)
    assert await told(another, claims[:1]) == [State.COMPLETED], "by the full path"
    for process in (store, another):
        assert await told(process, claims) == [State.COMPLETED] * (LOT + 1)
    assert await tables.run("SELECT COUNT(*) FROM inbox_jobs WHERE chunk IS NOT NULL") == [(LOT - 1,)]
    events = [await store.outbox.get(event.id) for _, event in await store.outbox.search(limit=100)]
    assert {event.job_id for event in events} == {c.job.id for c in claims[:-1]}
    assert len(events) == LOT, "each is told once"
    for event in events:
        row = event_of(await store.get(event.job_id), event.id)
        assert msgspec.json.decode(event.body) == msgspec.json.decode(row.body)
        assert (event.sequence, event.type, event.url) == (row.sequence, "job.completed", CALLBACK)
        assert (event.origin, event.created_at, event.run_at) == (row.origin, clock(), clock())


@pytest.mark.usefixtures("on_receipts")
async def test_the_event_of_a_job_that_was_left_to_the_full_path_is_told_once(store: SqlStore) -> None:
    await bulk(store, LOT, callback_url=CALLBACK, callback_events="terminal")
    claims = await claim(store)
    await store.cancel(claims[0].job.id)
    replies = await store.control_plane.finish([report(ended) for ended in claims])
    assert [reply.state for reply in replies] == [State.COMPLETED] * LOT
    assert all(reply.settled is not None and reply.settled.has_callback for reply in replies), "the outbox is woken"
    events = [event for _, event in await store.outbox.search(limit=100)]
    assert sorted(event.job_id for event in events) == sorted(c.job.id for c in claims)


async def test_what_lasts_goes_onto_its_row_with_its_token(store: SqlStore, tables: PostgresTables) -> None:
    claims = await claimed(store)
    async with asyncio.timeout(20):
        while await receipts(tables):  # noqa: ASYNC110  # another task of the store does it
            await asyncio.sleep(0.02)
    stored = dict(await tables.run("SELECT CAST(id AS text), lease_token_hash FROM inbox_jobs"))
    assert stored == {c.job.id: hash_token(c.lease.token or "") for c in claims}
    assert await rows(tables, "state, chunk IS NULL, worker_id") == [("running", True, "w1")]
    assert await told(store, claims) == [State.COMPLETED] * LOT


async def test_settled_receipts_go(store: SqlStore, tables: PostgresTables) -> None:
    await told(store, await claimed(store))
    async with asyncio.timeout(20):
        while await receipts(tables):  # noqa: ASYNC110  # another task of the store does it
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("on_receipts")
async def test_a_store_that_is_closed_leaves_its_claims_on_their_rows(
    another: SqlStore, store: SqlStore, tables: PostgresTables
) -> None:
    claims = await claimed(another)
    await another.close()
    assert (await receipts(tables), await rows(tables, "state")) == (0, [("running",)])
    assert await told(store, claims) == [State.COMPLETED] * LOT


@pytest.mark.usefixtures("on_receipts")
async def test_who_does_not_take_receipts_gets_none(store: SqlStore, tables: PostgresTables) -> None:
    await bulk(store, 2 * LOT)
    older = ClaimRequest(worker_id="w", limit=LOT)
    assert len(await store.control_plane.claim_for(older, ["w"] * LOT)) == LOT
    assert await receipts(tables) == 0
    assert len(await claim(store)) == LOT
    assert await receipts(tables) == 1


@pytest.mark.usefixtures("on_receipts")
async def test_each_of_several_workers_gets_a_receipt_of_its_own_where_there_is_enough_for_all(
    store: SqlStore, another: SqlStore, tables: PostgresTables
) -> None:
    ids = await bulk(store, 100)
    (first,) = await claim(store, 1)  # Now it is known that the queue has chunks.
    request = ClaimRequest(worker_id="a", limit=5, prefetch=5, prefetch_types=(first.job.type,), by_receipt=True)
    claims = await store.control_plane.claim_for(request, [*"abaab", *"bbabb"])
    assert [c.job.id for c in claims] == ids[1:11]
    assert [c.job.worker_id for c in claims] == [*"aaaa", *"bbbbbb"]
    assert await tables.run("SELECT worker_id, token_hashes IS NULL FROM euterpe_claims ORDER BY receipt") == [
        ("w1", False), ("a", False), ("b", False),
    ]  # fmt: skip
    assert await told(another, claims[::2]) == [State.COMPLETED] * 5
    assert await told(store, claims[1::2]) == [State.COMPLETED] * 5


@pytest.mark.usefixtures("on_receipts")
async def test_several_workers_share_what_is_not_enough_for_all(store: SqlStore, tables: PostgresTables) -> None:
    ids = await bulk(store, LOT + 5)
    await claim(store)
    request = ClaimRequest(worker_id="a", limit=6, by_receipt=True)
    claims = await store.control_plane.claim_for(request, [*"ababab"])
    assert [(c.job.id, c.job.worker_id) for c in claims] == list(zip(ids[LOT:], "ababa", strict=True))
    assert await receipts(tables) == 1, "that of the first claim"


@pytest.mark.usefixtures("on_receipts")
async def test_what_one_worker_got_is_not_lost_when_the_claim_for_the_next_one_fails(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await bulk(store, 100)
    await claim(store, 1)
    run, asked = store.control_plane._claim, []

    async def fail_the_second_time(request: ClaimRequest, worker_ids: Sequence[str]) -> list[Claim]:
        asked.append(request.worker_id)
        if len(asked) % 2 == 0:
            raise StoreUnavailable("gone")
        return await run(request, worker_ids)

    monkeypatch.setattr(store.control_plane, "_claim", fail_the_second_time)
    request = ClaimRequest(worker_id="a", limit=6, by_receipt=True)
    claims = await store.control_plane.claim_for(request, [*"ababab"])
    assert [(c.job.id, c.job.worker_id) for c in claims] == [(job_id, "a") for job_id in ids[1:4]]
    asked.append("")
    with pytest.raises(StoreUnavailable):
        await store.control_plane.claim_for(request, [*"ababab"])


@pytest.mark.usefixtures("on_receipts")
async def test_a_worker_that_tells_what_it_holds_gets_back_uncharged_what_it_never_saw(store: SqlStore) -> None:
    known, lost, *_ = await claimed(store)
    assert await store.sweeps.release_unbegun("w1", {(known.job.id, 1)}) == LOT - 1
    job = await store.get(lost.job.id)
    assert (job.state, job.attempt_count) == (State.SCHEDULED, 0)
    assert await told(store, [known]) == [State.COMPLETED]
    assert await told(store, [lost]) == [None]
