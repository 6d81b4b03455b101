"""The port `Claims` over HTTP keeps the promises that it keeps over a database."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.errors import IllegalTransition
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.remote.store import HttpStore
from tests.faults.recorder import rows
from tests.remote.conftest import Remote

EVERYTHING = 1000


def ask(limit: int = 1, worker_id: str = "w-1", **more: Any) -> ClaimRequest:
    return ClaimRequest(worker_id=worker_id, limit=limit, **more)


async def taken(store: HttpStore, **said: Any) -> Claim:
    await store.submit(Submission(type="t", **said))
    (claim,) = await store.claim(ask())
    return claim


async def end(store: HttpStore, claim: Claim, outcome: Outcome) -> SettleResult:
    (verdict,) = await store.settle([Report(claim, outcome)])
    return verdict


def failed(category: Category, **more: Any) -> Failed:
    return Failed(Failure(category, "no luck", **more))


async def test_every_job_goes_to_exactly_one_of_many_claimers(remote: Remote) -> None:
    async with remote.store() as one, remote.store() as other:
        await one.submit_many([Submission(type="t") for _ in range(300)])
        seen: list[str] = []

        async def claim_all(store: HttpStore, worker_id: str) -> None:
            while claims := await store.claim(ask(7, worker_id)):
                seen.extend(claim.job.id for claim in claims)

        await asyncio.gather(*(claim_all((one, other)[i % 2], f"w-{i}") for i in range(8)))
        assert len(seen) == len(set(seen)) == 300


async def test_a_claim_brings_all_that_a_worker_needs(store: HttpStore) -> None:
    said = Submission(
        type="t",
        payload=b'{"a":1.50}',
        priority=0,
        max_attempts=7,
        execution_timeout_us=90_000_000,
        tags={"team": "a"},
        correlation_id="c-1",
        stages=("claimed", "one", "two"),
    )
    await store.submit(said)
    (claim,) = await store.claim(ask(types=("t",)))
    job = claim.job
    assert (job.payload, job.priority, job.max_attempts, job.attempt_count) == (b'{"a":1.50}', 0, 7, 1)
    assert (job.execution_timeout_us, job.tags, job.correlation_id) == (90_000_000, {"team": "a"}, "c-1")
    assert (job.stages, job.queue, job.state) == (("claimed", "one", "two"), "default", State.RUNNING)
    assert claim.lease.token
    assert abs(claim.lease.expires_at - time.time() * 1e6 - 60e6) < 30e6


async def test_bytes_arrive_as_they_were_sent(store: HttpStore) -> None:
    everything = bytes(range(256))
    claim = await taken(store, payload=everything, payload_format="bytes")
    assert (claim.job.payload, claim.job.payload_format) == (everything, "bytes")


async def test_types_and_queues_are_respected(store: HttpStore) -> None:
    for job_type, queue in (("a", "x"), ("b", "y"), ("a", "y")):
        await store.submit(Submission(type=job_type, queue=queue))
    claims = await store.claim(ask(EVERYTHING, queues=("y", "x"), types=("a",)))
    assert [(c.job.type, c.job.queue) for c in claims] == [("a", "y"), ("a", "x")]
    assert await store.claim(ask(types=())) == []


@pytest.mark.parametrize(
    ("outcome", "max_attempts", "becomes"),
    [
        (Success(b'{"n":1}'), 3, State.COMPLETED),
        (Success(None), 3, State.COMPLETED),
        (failed(Category.TEMPORARY), 3, State.RETRYING),
        (failed(Category.TIMEOUT), 3, State.RETRYING),
        (failed(Category.SYSTEM), 1, State.DEAD_LETTER),
        (failed(Category.PERMANENT), 3, State.FAILED),
        (failed(Category.CANCELLED), 3, State.CANCELLED),
        (Cancelled(), 3, State.CANCELLED),
        (Released(), 3, State.SCHEDULED),
    ],
)
async def test_an_outcome_becomes_the_state_that_it_means(
    store: HttpStore, outcome: Outcome, max_attempts: int, becomes: State
) -> None:
    claim = await taken(store, max_attempts=max_attempts)
    assert await end(store, claim, outcome) == SettleResult(True, becomes)
    job = await store.get(claim.job.id)
    if becomes is State.RETRYING:
        assert job.state in (State.RETRYING, State.SCHEDULED)
    else:
        assert job.state is becomes
    if isinstance(outcome, Success):
        assert job.result == outcome.result


async def test_a_failures_words_are_kept_and_what_json_refuses_is_replaced(store: HttpStore) -> None:
    failure = Failure(Category.PERMANENT, "odd \ud800 and \x00", "x" * 500, "the stack", None, 502)
    claim = await taken(store)
    assert (await end(store, claim, Failed(failure))).accepted
    error = (await store.get(claim.job.id)).error_document
    assert error is not None
    assert (error["code"], error["stack"], error["http_status"]) == ("x" * 200, "the stack", 502)
    assert error["message"] == "odd ? and \N{REPLACEMENT CHARACTER}"
    (attempt,) = await store.attempts(claim.job.id)
    assert (attempt.attempt_id, attempt.outcome) == (claim.lease.attempt_id, "permanent")


async def test_a_repeated_report_is_accepted_and_another_one_is_refused(store: HttpStore) -> None:
    claim = await taken(store)
    for _ in range(3):
        assert await end(store, claim, Success(b'{"n": 1}')) == SettleResult(True, State.COMPLETED)
    assert await end(store, claim, Success(b'{"n": 2}')) == SettleResult(False)
    assert await end(store, claim, failed(Category.TEMPORARY)) == SettleResult(False)
    assert (await store.get(claim.job.id)).result == b'{"n": 1}'


async def test_a_wrong_token_or_version_writes_nothing(store: HttpStore) -> None:
    claim = await taken(store)
    stranger = msgspec.structs.replace(claim, lease=msgspec.structs.replace(claim.lease, token="guess"))
    earlier = msgspec.structs.replace(claim, lease=msgspec.structs.replace(claim.lease, claim_version=7))
    for forged in (stranger, earlier):
        assert await end(store, forged, Success()) == SettleResult(False)
        assert [beat.alive for beat in await store.heartbeat([forged.lease])] == [False]
        assert await store.update_progress([ProgressUpdate(forged, progress=50.0)]) == [False]
    assert (await store.get(claim.job.id)).state is State.RUNNING
    assert (await end(store, claim, Success())).accepted


async def test_one_refused_report_does_not_keep_its_neighbours_from_being_written(store: HttpStore) -> None:
    await store.submit_many([Submission(type="t") for _ in range(5)])
    claims = await store.claim(ask(5))
    await store.cancel(claims[2].job.id, force=True)
    verdicts = await store.settle([Report(claim, Success()) for claim in claims])
    assert [verdict.accepted for verdict in verdicts] == [True, True, False, True, True]


async def test_a_cancel_travels_in_the_answer_to_a_heartbeat_and_force_takes_the_lease(store: HttpStore) -> None:
    claim = await taken(store)
    (before,) = await store.heartbeat([claim.lease])
    assert (before.alive, before.cancel_requested) == (True, False)
    assert await store.cancel(claim.job.id) is State.RUNNING
    (asked,) = await store.heartbeat([claim.lease])
    assert (asked.alive, asked.cancel_requested) == (True, True)
    assert await store.cancel(claim.job.id, force=True) is State.CANCELLED
    assert [beat.alive for beat in await store.heartbeat([claim.lease])] == [False]
    assert await end(store, claim, Success()) == SettleResult(False)


async def test_stage_progress_and_checkpoint_ride_on_heartbeats(store: HttpStore) -> None:
    claim = await taken(store, stages=("claimed", "one", "two"))
    news = [ProgressUpdate(claim, "one", 40.0, "half way", b'j{"at":7}')]
    assert await store.update_progress(news) == [True]
    job = await store.get(claim.job.id)
    assert (job.stage, job.progress, job.progress_message) == ("one", 40.0, "half way")
    with pytest.raises(IllegalTransition):
        await store.update_progress([ProgressUpdate(claim, "nowhere")])
    assert (await end(store, claim, Released())).accepted
    (again,) = await store.claim(ask())
    assert again.job.checkpoint == b'j{"at":7}'
    assert await store.update_progress([ProgressUpdate(again, checkpoint=b"b\x00\xff")]) == [True]
    assert (await end(store, again, Released())).accepted
    (third,) = await store.claim(ask())
    assert third.job.checkpoint == b"b\x00\xff"


async def test_a_turn_settles_and_claims(store: HttpStore) -> None:
    claim = await taken(store)
    await store.submit(Submission(type="next"))
    verdicts, claims = await store.exchange([Report(claim, Success())], ask(10))
    assert verdicts == [SettleResult(True, State.COMPLETED)]
    assert [c.job.type for c in claims] == ["next"]


async def test_heartbeats_keep_a_lease_past_its_time(store: HttpStore, remote: Remote) -> None:
    claim = await taken(store)
    ends = [claim.lease.expires_at]
    for _ in range(3):
        assert [beat.alive for beat in await store.heartbeat([claim.lease])] == [True]
        ((end_of_lease,),) = rows(remote.url, "SELECT lease_expires_at FROM inbox_jobs")
        ends.append(end_of_lease)
    assert ends == sorted(set(ends)), "every beat puts the end off"


class TestShortLeases:
    @pytest.fixture
    def lease_s(self) -> float:
        return 1.0

    async def test_an_expired_lease_is_taken_back_and_its_late_worker_writes_nothing(self, store: HttpStore) -> None:
        late = await taken(store, max_attempts=5)
        claims: list[Claim] = []
        async with asyncio.timeout(30):
            while not claims:
                _, claims = await store.exchange([], ask(worker_id="w-2"))
        (claim,) = claims
        assert claim.job.id == late.job.id
        assert claim.lease.claim_version > late.lease.claim_version
        assert await end(store, late, Success(b"1")) == SettleResult(False)
        assert await end(store, claim, Success(b"2")) == SettleResult(True, State.COMPLETED)
        assert (await store.get(claim.job.id)).result == b"2"
