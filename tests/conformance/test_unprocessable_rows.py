"""Rows that an older release or a hand wrote and that cannot be read: each ends alone, and nothing waits for it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Cancelled, Outcome, Released, Success
from euterpe.model.errors import UnprocessableRow
from euterpe.model.failures.failure import Category
from euterpe.model.reading.document import job_document
from euterpe.model.reading.views import Search
from euterpe.model.state import TERMINAL, State
from euterpe.server.long_poll import LongPoll, Waiter
from euterpe.stores.sql.store import SqlStore
from euterpe.wakeups.local import LocalWakeups
from tests.conformance.acts import CALLBACK, HOUR, MINUTE, complete, failure, state_of, submit, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.over_http import served
from tests.sql_stores import report_of, worker_protocol

SPOILT = {
    "a callback with an open bracket": ("callback_url", "http://["),
    "a callback whose host NFKC changes": ("callback_url", "http://a\u2100b.example/"),
    "tags that are no JSON": ("tags", "{broken"),
    "tags that are no map": ("tags", "[1]"),
    "a tag that is no text": ("tags", '{"a":1}'),
    "a retry policy that is no JSON": ("retry_policy", "nonsense"),
    "a retry policy with an unknown strategy": ("retry_policy", '{"strategy":"warp"}'),
    "a retry policy of the wrong types": ("retry_policy", '{"initial_us":"soon"}'),
    "stages that are no JSON": ("stages", "x"),
    "stages that are no list": ("stages", '{"a":"b"}'),
}


@pytest.fixture(params=["sqlite", "postgres"])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


ONE_OF_EACH = (
    "a callback with an open bracket",
    "tags that are no JSON",
    "a retry policy that is no JSON",
    "stages that are no JSON",
)


@pytest.fixture(params=ONE_OF_EACH)
def spoilt_column(request: pytest.FixtureRequest) -> tuple[str, str]:
    return SPOILT[request.param]


@pytest.fixture(params=list(SPOILT))
def spoilt(request: pytest.FixtureRequest) -> tuple[str, str]:
    return SPOILT[request.param]


async def spoil(tables: Tables, job_id: str, spoilt: tuple[str, str]) -> None:
    await tables.run(f"UPDATE inbox_jobs SET {spoilt[0]} = '{spoilt[1]}' WHERE id = '{job_id}'")


async def write_blob(store: SqlStore, tables: Tables, column: str, job_id: str, text: str) -> None:
    blob = text.encode().replace(b"\\xff", b"\xff").hex()
    value = f"decode('{blob}', 'hex')" if store.engine.family == "postgres" else f"x'{blob}'"
    await tables.run(f"UPDATE inbox_jobs SET {column} = {value} WHERE id = '{job_id}'")


async def code_of(store: SqlStore, job_id: str) -> Any:
    return ((await store.get(job_id)).error_document or {}).get("code")


@pytest.mark.parametrize("callback", [None, CALLBACK], ids=["plain", "told"])
async def test_a_claim_ends_the_row_it_cannot_read_and_takes_the_others(
    store: SqlStore, tables: Tables, spoilt: tuple[str, str], callback: str | None
) -> None:
    first, bad, last = [await submit(store, callback_url=callback, tags={"n": str(i)}) for i in range(3)]
    await spoil(tables, bad, spoilt)
    claims = await take(store, 2)
    assert [claim.job.id for claim in claims] == [first, last], "a short answer would say that the queue is empty"
    assert (await state_of(store, bad), await code_of(store, bad)) == (State.DEAD_LETTER, "unprocessable_row")
    error = (await store.get(bad)).error_document
    assert error is not None
    assert spoilt[0] in error["message"]
    for claim in claims:
        assert (await complete(store, claim)).accepted


async def test_a_claim_of_http_workers_ends_it_too(store: SqlStore, tables: Tables, spoilt: tuple[str, str]) -> None:
    first, bad, last = [await submit(store) for _ in range(3)]
    await spoil(tables, bad, spoilt)
    wire = worker_protocol(store.engine, Random(1))
    claims = await wire.claim_for(ClaimRequest(worker_id="w", limit=3), ["w:1", "w:2", "w:3"])
    assert [claim.job.id for claim in claims] == [first, last]
    assert await code_of(store, bad) == "unprocessable_row"


async def test_a_gap_in_a_shared_claim_gives_no_job_to_another_worker(store: SqlStore, tables: Tables) -> None:
    bad, second, third = [await submit(store) for _ in range(3)]
    await spoil(tables, bad, SPOILT["tags that are no JSON"])
    wire = worker_protocol(store.engine, Random(1))
    shared = LongPoll(wire.claim_for, store.settle, LocalWakeups(), lease_ttl_us=MINUTE, poll_s=(60, 60))
    waiters = [Waiter(f"w:{i}", 1) for i in range(1, 4)]
    async with asyncio.timeout(30), asyncio.TaskGroup() as polls:
        for waiter in waiters:
            polls.create_task(shared.claim(waiter, ["default"], None, 60))
        await waiters[1].future
        shared.drain()
    await shared.close()
    got = [[(claim.job.id, claim.job.worker_id) for claim in waiter.future.result()] for waiter in waiters]
    assert got == [[], [(second, "w:2")], [(third, "w:3")]]


NO_JSON = ("{", "", "nothing", '{"a":1}]', "\\xff")


@pytest.mark.parametrize("payload", NO_JSON)
@pytest.mark.parametrize("by_turn", [False, True], ids=["claim", "turn"])
async def test_a_payload_that_is_no_json_does_not_spoil_an_answer_over_http(
    store: SqlStore, tables: Tables, payload: str, by_turn: bool
) -> None:
    first, bad, last = [await submit(store) for _ in range(3)]
    await write_blob(store, tables, "payload", bad, payload)
    async with served(store) as client:
        if by_turn:
            _, claims = await client.exchange([], ClaimRequest(worker_id="w", limit=3))
        else:
            claims = await take(client, 3)
        assert [claim.job.id for claim in claims] == [first, last]
        for claim in claims:
            assert (await complete(client, claim)).accepted
    assert (await state_of(store, bad), await code_of(store, bad)) == (State.DEAD_LETTER, "unprocessable_row")
    assert "payload" in ((await store.get(bad)).error_document or {})["message"]


NO_JSON_CHECKPOINTS = ("j{", "j\\xff", "hand-written")


@pytest.mark.parametrize("checkpoint", NO_JSON_CHECKPOINTS)
@pytest.mark.parametrize("by_turn", [False, True], ids=["claim", "turn"])
async def test_a_checkpoint_that_is_no_json_does_not_spoil_an_answer_over_http(
    store: SqlStore, tables: Tables, checkpoint: str, by_turn: bool
) -> None:
    first, bad, last = [await submit(store) for _ in range(3)]
    await write_blob(store, tables, "checkpoint", bad, checkpoint)
    await write_blob(store, tables, "checkpoint", last, 'j{"at":3}')
    async with served(store) as client:
        if by_turn:
            _, claims = await client.exchange([], ClaimRequest(worker_id="w", limit=3))
        else:
            claims = await take(client, 3)
        assert [claim.job.id for claim in claims] == [first, last]
        assert [claim.job.checkpoint for claim in claims] == [None, b'j{"at":3}']
    assert (await state_of(store, bad), await code_of(store, bad)) == (State.DEAD_LETTER, "unprocessable_row")
    assert "checkpoint" in ((await store.get(bad)).error_document or {})["message"]


@pytest.mark.parametrize("column", ["result", "error"])
async def test_a_result_or_an_error_that_is_no_json_stops_no_claim_over_http(
    store: SqlStore, tables: Tables, column: str
) -> None:
    jobs = [await submit(store) for _ in range(3)]
    if column == "result":
        await write_blob(store, tables, column, jobs[1], "no json")
    else:
        await spoil(tables, jobs[1], (column, "no json"))
    async with served(store) as client:
        claims = await take(client, 3)
        assert [claim.job.id for claim in claims] == jobs
        for claim in claims:
            assert (await complete(client, claim)).accepted


async def test_bytes_that_are_no_json_travel_over_http_as_bytes(store: SqlStore) -> None:
    sent = await submit(store, payload=b"\xff{", payload_format="bytes")
    async with served(store) as client:
        (claim,) = await take(client, 1)
        assert (claim.job.id, claim.job.payload) == (sent, b"\xff{")


OUTCOMES: dict[str, Outcome] = {
    "success": Success(b"1"),
    "temporary": failure(Category.TEMPORARY),
    "permanent": failure(Category.PERMANENT),
    "timeout": failure(Category.TIMEOUT),
    "system": failure(Category.SYSTEM),
    "released": Released(),
    "cancelled": Cancelled(),
}


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=list(OUTCOMES))
async def test_a_settle_of_a_batch_is_not_stopped_by_a_row_that_was_spoilt_while_it_ran(
    store: SqlStore, tables: Tables, spoilt_column: tuple[str, str], outcome: Outcome
) -> None:
    jobs = [await submit(store, callback_url=CALLBACK, tags={"n": str(i)}) for i in range(3)]
    claims = await take(store)
    await spoil(tables, jobs[1], spoilt_column)
    verdicts = await store.settle([Report(claim, outcome) for claim in claims])
    assert [verdict.accepted for verdict in verdicts] == [True] * 3
    assert len({await state_of(store, job_id) for job_id in jobs}) == 1, "what the handler said stands"


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=list(OUTCOMES))
async def test_reports_of_http_workers_are_decided_each_by_its_own_row(
    store: SqlStore, tables: Tables, spoilt_column: tuple[str, str], outcome: Outcome
) -> None:
    for i in range(3):
        await submit(store, tags={"n": str(i)})
    wire = worker_protocol(store.engine, Random(1))
    claims = await wire.claim_for(ClaimRequest(worker_id="w", limit=3), ["w:1", "w:2", "w:3"])
    await spoil(tables, claims[1].job.id, spoilt_column)
    another = worker_protocol(store.engine, Random(1))  # It has not seen the claims, and goes by the rows.
    replies = await another.finish([report_of(c, outcome) for c in claims])
    assert all(reply.state is not None for reply in replies)
    states = [await state_of(store, claim.job.id) for claim in claims]
    assert states[0] is states[2]
    if spoilt_column[0] == "retry_policy" and states[0] is State.RETRYING:
        assert (states[1], await code_of(store, claims[1].job.id)) == (State.DEAD_LETTER, "unprocessable_row")
    else:
        assert states[1] is states[0]


@pytest.mark.parametrize("callback", [None, CALLBACK], ids=["plain", "told"])
async def test_every_sweep_goes_on_past_a_row_it_cannot_read(
    store: SqlStore, tables: Tables, clock: FrozenClock, spoilt: tuple[str, str], callback: str | None
) -> None:
    said: dict[str, Any] = {"callback_url": callback, "lifetime_us": HOUR}
    lost = [(await taken(store, f"lost{i}", **said)).job.id for i in range(3)]
    spent = [(await taken(store, f"spent{i}", max_attempts=1, **said)).job.id for i in range(3)]
    delayed = [await submit(store, f"delayed{i}", delay_us=MINUTE, **said) for i in range(3)]
    old = [await submit(store, f"old{i}", **(said | {"lifetime_us": MINUTE})) for i in range(3)]
    for group in (lost, spent, delayed, old):
        await spoil(tables, group[1], spoilt)
    clock.advance(us=2 * MINUTE)
    await store.sweeps.urgent()
    unreadable = State.DEAD_LETTER if spoilt[0] == "retry_policy" else State.RETRYING
    assert [await state_of(store, i) for i in lost] == [State.RETRYING, unreadable, State.RETRYING]
    assert [await state_of(store, i) for i in (*spent, *old)] == [State.DEAD_LETTER] * 6
    assert [await state_of(store, i) for i in delayed] == [State.SCHEDULED] * 3
    clock.advance(us=2 * HOUR)
    await store.sweeps.urgent()
    for job_id in (*lost, *spent, *delayed, *old):
        assert await state_of(store, job_id) in TERMINAL
    clock.advance(days=100)
    assert await store.sweeps.prune() == 12


@pytest.mark.parametrize("force", [False, True])
async def test_it_can_be_cancelled(store: SqlStore, tables: Tables, spoilt: tuple[str, str], force: bool) -> None:
    waiting = await submit(store, "waiting", callback_url=CALLBACK)
    running = (await taken(store, "running", callback_url=CALLBACK)).job.id
    for job_id in (waiting, running):
        await spoil(tables, job_id, spoilt)
    assert await store.cancel(waiting, force=force) is State.CANCELLED
    assert await store.cancel(running, force=force) is (State.CANCELLED if force else State.RUNNING)


async def test_a_replay_says_that_the_row_cannot_be_read(
    store: SqlStore, tables: Tables, spoilt: tuple[str, str]
) -> None:
    claim = await taken(store)
    await complete(store, claim)
    await spoil(tables, claim.job.id, spoilt)
    with pytest.raises((UnprocessableRow, ValueError)) as refused:
        await store.retry(claim.job.id)
    assert spoilt[0] in str(refused.value)


@pytest.mark.parametrize(
    "also",
    [("error", "not json"), ("error", "[1]"), ("result", "not json"), ("payload", "{"), ("run_at", str(2**62))],
    ids=lambda pair: "=".join(pair),
)
async def test_looking_shows_it_among_the_others(
    store: SqlStore, tables: Tables, spoilt_column: tuple[str, str], also: tuple[str, str]
) -> None:
    jobs = [await submit(store, tags={"team": "a"}) for _ in range(3)]
    await spoil(tables, jobs[1], spoilt_column)
    column, value = also
    blob = f"'{value}'" if store.engine.family == "postgres" else f"CAST('{value}' AS BLOB)"
    text = blob if column in ("result", "payload") else value if column == "run_at" else f"'{value}'"
    await tables.run(f"UPDATE inbox_jobs SET {column} = {text} WHERE id = '{jobs[1]}'")
    page = await store.search(Search())
    assert {job.id for job in page.jobs} == set(jobs)
    for job in page.jobs:
        shown = msgspec.json.decode(msgspec.json.encode(job_document(job)))
        assert (shown["job_id"], shown["state"]) == (job.id, "scheduled")
    found = await store.search(Search(tag=("team", "a")))
    assert {job.id for job in found.jobs} == ({jobs[0], jobs[2]} if spoilt_column[0] == "tags" else set(jobs))
    assert (await store.stats()).by_state == {"scheduled": 3}
    assert await store.attempts(jobs[1]) == []


async def test_a_dependent_whose_kind_cannot_be_read_ends_and_the_others_are_released(
    store: SqlStore, tables: Tables
) -> None:
    claim = await taken(store, "first")
    first, bad, last = [await submit(store, "then", depends_on=(claim.job.id,)) for _ in range(3)]
    await spoil(tables, bad, ("dependency", "nonsense"))
    assert (await complete(store, claim)).accepted
    assert [await state_of(store, i) for i in (first, bad, last)] == [
        State.SCHEDULED,
        State.DEAD_LETTER,
        State.SCHEDULED,
    ]
    assert await code_of(store, bad) == "unprocessable_row"


async def test_a_state_that_nobody_knows_is_told_by_name_and_stops_nothing(store: SqlStore, tables: Tables) -> None:
    if store.engine.family == "sqlite":
        return  # Its schema refuses the state.
    first, bad, last = [await submit(store) for _ in range(3)]
    await spoil(tables, bad, ("state", "weird"))
    assert [claim.job.id for claim in await take(store)] == [first, last]
    with pytest.raises(UnprocessableRow, match="state"):
        await store.get(bad)
    await store.sweeps.urgent()
    await store.stats()
