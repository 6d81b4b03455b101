"""Lease tokens of HTTP workers: signatures over job, claim and worker, of which nothing is stored with the job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.errors import CommitUnknown
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.worker_protocol import lease_tokens, lost_claims
from euterpe.stores.sql.worker_protocol.store import WorkerProtocolStore
from tests.conformance.acts import job, release, state_of, submit, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import needs
from tests.sql_stores import report_of, shown, worker_protocol

pytestmark = needs(Capability.CONTROL_PLANE)
MINUTE = 60_000_000
FAILURE = Failed(Failure(Category.TEMPORARY, "no luck"))


async def claimed(wire: WorkerProtocolStore, *worker_ids: str, **asked: Any) -> list[Claim]:
    return await wire.claim_for(ClaimRequest(worker_id="", limit=len(worker_ids), **asked), worker_ids)


async def test_a_claim_gives_tokens_only_when_asked_and_stores_nothing_of_them(store: SqlStore, tables: Tables) -> None:
    await store.submit_many([job() for _ in range(3)])
    assert (await take_one(store)).lease.token is None
    wire = store.control_plane
    claims = await claimed(wire, "w1", "w1")
    await wire.finish([report_of(claims[0], FAILURE)])
    tokens = [shown(claim).token for claim in claims]
    assert len(set(tokens)) == 2
    assert all(len(token.partition(".")[2]) == 64 for token in tokens)
    for table in ("inbox_jobs", "euterpe_ended_attempts"):
        stored = repr(await tables.run(f"SELECT * FROM {table}"))
        assert all(token not in stored and token.partition(".")[2] not in stored for token in tokens)


@pytest.mark.parametrize("is_remembered", [True, False], ids=["here", "another control plane"])
@pytest.mark.parametrize("change", ["job_id", "claim_version", "worker_id", "token"])
async def test_a_token_is_valid_for_its_own_job_claim_and_worker_alone(
    store: SqlStore, change: str, is_remembered: bool
) -> None:
    await store.submit_many([job(), job()])
    claim, other = await claimed(store.control_plane, "w1", "w1")
    wire = store.control_plane if is_remembered else worker_protocol(store.engine)
    values = {"job_id": other.job.id, "claim_version": 2, "worker_id": "w2", "token": shown(other).token}
    wrong = msgspec.structs.replace(report_of(claim, Success()), **{change: values[change]})
    (reply,) = await wire.finish([wrong])
    assert reply.state is None
    assert await wire.renew_leases([wrong, shown(claim)], MINUTE) == [None, *(await renewed(wire, claim))]
    assert [await state_of(store, job_id) for job_id in (claim.job.id, other.job.id)] == [State.RUNNING] * 2
    (reply,) = await wire.finish([report_of(claim, Success())])
    assert reply.state is State.COMPLETED


async def renewed(wire: WorkerProtocolStore, claim: Claim) -> Sequence[object]:
    return await wire.renew_leases([shown(claim)], MINUTE)


async def test_the_token_of_an_earlier_claim_is_of_no_use(store: SqlStore) -> None:
    await submit(store)
    wire = store.control_plane
    (first,) = await claimed(wire, "w1")
    await release(store, first)
    (second,) = await claimed(wire, "w1")
    assert (second.job.id, second.job.claim_version) == (first.job.id, 2)
    assert await renewed(wire, first) == [None]
    (reply,) = await wire.finish([report_of(first, Success())])
    assert reply.state is None
    assert await state_of(store, first.job.id) is State.RUNNING


@pytest.mark.parametrize("outcome", [Success(b"1"), FAILURE, Released()], ids=["completed", "failed", "released"])
async def test_any_control_plane_settles_and_answers_again(store: SqlStore, outcome: Outcome) -> None:
    await submit(store)
    (claim,) = await claimed(store.control_plane, "w1")
    report = report_of(claim, outcome)
    (first,) = await worker_protocol(store.engine).finish([report])
    assert first.state is not None
    for wire in (store.control_plane, worker_protocol(store.engine)):
        again, other = await wire.finish([report, msgspec.structs.replace(report, outcome_hash=b"o" * 32)])
        assert (again.state, other.state) == (first.state, None)


async def test_control_planes_that_begin_together_share_one_secret(store: SqlStore, tables: Tables) -> None:
    await store.submit_many([job() for _ in range(4)])
    planes = [worker_protocol(store.engine) for _ in range(4)]
    found = await asyncio.gather(*(claimed(wire, "w1") for wire in planes))
    assert len(await tables.run("SELECT secret FROM euterpe_token_secrets")) == 1
    for wire in planes:
        assert all(await wire.renew_leases([shown(claim) for claims in found for claim in claims], MINUTE))


async def test_two_secrets_are_valid_while_one_is_rotated(
    store: SqlStore, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_tokens, "LOAD_AGAIN_S", 0.0)
    await store.submit_many([job() for _ in range(4)])
    checks, signs = store.control_plane, worker_protocol(store.engine)
    (old,), (old_too,) = await claimed(checks, "w1"), await claimed(signs, "w1")
    newer = "SELECT 1, substr(secret, 2) FROM euterpe_token_secrets"
    await tables.run(f"INSERT INTO euterpe_token_secrets (created_at, secret) {newer}")
    (new,) = await claimed(worker_protocol(store.engine), "w1")
    assert all(await checks.renew_leases([shown(old), shown(new)], MINUTE)), "it reads the secrets once more"
    monkeypatch.setattr(lease_tokens, "SIGN_WITH_S", 0.0)
    (newest,) = await claimed(signs, "w1")
    await tables.run("DELETE FROM euterpe_token_secrets WHERE created_at = 0")
    leases = [shown(claim) for claim in (old, old_too, new, newest)]
    answers = await worker_protocol(store.engine).renew_leases(leases, MINUTE)
    assert [answer is not None for answer in answers] == [False, False, True, True]


async def test_the_most_urgent_jobs_are_for_the_first_workers(store: SqlStore) -> None:
    await submit(store, "late", priority=3)
    await submit(store, "soon", priority=1)
    await submit(store, "told", callback_url="http://receiver.invalid/")
    claims = await claimed(store.control_plane, "w1", "w2", "w1", "w3")
    assert [(c.job.type, c.job.worker_id) for c in claims] == [("soon", "w1"), ("told", "w2"), ("late", "w1")]
    for claim in claims:
        assert (await store.get(claim.job.id)).worker_id == claim.job.worker_id


async def test_several_queues_are_asked_in_order_for_several_workers(store: SqlStore) -> None:
    await submit(store, "low", queue="low")
    await submit(store, "high", queue="high")
    claims = await claimed(store.control_plane, "w1", "w2", queues=("high", "low"))
    assert [(c.job.type, c.job.worker_id) for c in claims] == [("high", "w1"), ("low", "w2")]


async def test_past_its_deadline_an_attempt_can_only_fail(store: SqlStore, clock: FrozenClock) -> None:
    """Whether this control plane remembers the claim or reads its row, and alone or among others."""
    await store.submit_many([job(execution_timeout_us=MINUTE), job(execution_timeout_us=10 * MINUTE)] * 2)
    wire = store.control_plane
    late, kept, failing, given_back = await claimed(wire, "w1", "w1", "w1", "w1", lease_ttl_us=MINUTE)
    assert late.lease.expires_at == (late.job.started_at or 0) + MINUTE
    clock.advance(us=MINUTE + 1)
    for plane in (wire, worker_protocol(store.engine)):
        assert [reply.state for reply in await plane.finish([report_of(late, Success())])] == [None]
    replies = await wire.finish([report_of(late, Success()), report_of(kept, Success())])
    assert [reply.state for reply in replies] == [None, State.COMPLETED]
    replies = await wire.finish([report_of(late, Released()), report_of(failing, FAILURE)])
    assert [reply.state for reply in replies] == [None, State.RETRYING]
    assert [reply.state for reply in await wire.finish([report_of(given_back, Released())])] == [State.SCHEDULED]


async def test_a_claim_whose_answer_was_lost_is_given_back_and_no_other(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_claims, "PAUSES_S", (0.0, 0.0))
    ids = [await submit(store, max_attempts=1) for _ in range(4)]
    wire = store.control_plane
    (runs,) = await claimed(wire, "w1")
    exchange = wire._exchange.run

    async def lose(*said: Any) -> Any:
        monkeypatch.setattr(wire._exchange, "run", exchange)
        await exchange(*said)
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(wire._exchange, "run", lose)
    with pytest.raises(CommitUnknown):
        await claimed(wire, "w1", "w2")
    again = await claimed(wire, "w1", "w2")
    assert [(c.job.id, c.job.attempt_count) for c in again] == [(ids[1], 1), (ids[2], 1)]
    assert all(await wire.renew_leases([shown(claim) for claim in (runs, *again)], MINUTE))
