"""Ending an attempt: what each outcome writes, exactly, and the attempt that stays as history."""

from __future__ import annotations

import msgspec

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import MAX_RELEASES, Cancelled, Outcome, Released, Success
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    SECOND,
    complete,
    end,
    fail,
    failure,
    job,
    release,
    stop,
    submit,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs


async def test_a_completed_job_keeps_its_result(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    ended_at = clock.advance(seconds=3)
    verdict = await complete(store, claim, b'{"pages": 3}')
    assert (verdict.accepted, verdict.state) == (True, State.COMPLETED)
    stored = await store.get(claim.job.id)
    assert (stored.state, stored.status, stored.result) == (State.COMPLETED, "succeeded", b'{"pages": 3}')
    assert stored.completed_at == stored.updated_at == ended_at
    assert (stored.error, stored.lease_expires_at, stored.worker_id) == (None, None, "w1")


async def test_a_job_may_complete_without_a_result(store: SqlStore) -> None:
    claim = await taken(store)
    await complete(store, claim, None)
    assert (await store.get(claim.job.id)).result is None


@needs(Capability.WHOLE_JOBS)
async def test_a_success_after_failures_clears_the_error(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await fail(store, claim)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    claim = await take_one(store)
    assert claim.job.error_document is not None
    await complete(store, claim)
    assert (await store.get(claim.job.id)).error is None


async def test_a_permanent_failure_ends_the_job_at_once(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, max_attempts=5)
    verdict = await fail(store, claim, Category.PERMANENT, code="bad_payload")
    assert verdict.state is State.FAILED
    stored = await store.get(claim.job.id)
    assert (stored.state, stored.completed_at, stored.attempt_count) == (State.FAILED, clock.now_us, 1)
    assert stored.error_document == {
        "code": "bad_payload",
        "category": "permanent",
        "message": "no luck",
        "retryable": False,
        "attempt": 1,
    }


@needs(Capability.RETRY_DELAYS)
async def test_a_temporary_failure_waits_for_its_backoff(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, max_attempts=4)
    for n, delay_s in ((1, 1), (2, 2), (3, 4)):
        verdict = await fail(store, claim)
        assert (verdict.state, verdict.delay_us) == (State.RETRYING, delay_s * SECOND)
        stored = await store.get(claim.job.id)
        assert (stored.run_at, stored.attempt_count, stored.completed_at) == (
            clock.now_us + delay_s * SECOND,
            n,
            None,
        )
        clock.advance(us=delay_s * SECOND - 1)
        assert await store.sweeps.promote() == []
        clock.advance(us=1)
        assert await store.sweeps.promote() == ["default"]
        claim = await take_one(store)
    assert (await fail(store, claim)).state is State.DEAD_LETTER


@needs(Capability.RETRY_DELAYS)
async def test_a_longer_retry_after_wins_over_the_backoff(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    verdict = await fail(store, claim, retry_after_us=90 * SECOND)
    assert verdict.delay_us == 90 * SECOND
    assert (await store.get(claim.job.id)).run_at == clock.now_us + 90 * SECOND


async def test_a_job_is_dead_lettered_after_exactly_max_attempts(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, max_attempts=3)
    outcomes = []
    for _ in range(3):
        outcomes.append((await fail(store, await take_one(store))).state)
        clock.advance(minutes=1)
        await store.sweeps.promote()
    assert outcomes == [State.RETRYING, State.RETRYING, State.DEAD_LETTER]
    stored = await store.get(job_id)
    assert (stored.attempt_count, stored.state) == (3, State.DEAD_LETTER)
    assert stored.error_document is not None
    assert not stored.error_document["retryable"]
    assert await take(store) == []
    assert len(await store.attempts(job_id)) == 3


async def test_a_timeout_is_retried_unless_the_job_says_otherwise(store: SqlStore) -> None:
    from euterpe.model.failures.retry import RetryPolicy

    usual, strict = await taken(store, "a"), await taken(store, "b", retry=RetryPolicy(on_timeout=False))
    assert (await fail(store, usual, Category.TIMEOUT)).state is State.RETRYING
    assert (await fail(store, strict, Category.TIMEOUT)).state is State.FAILED


@needs(Capability.WHOLE_JOBS)
async def test_a_released_job_can_be_claimed_at_once_and_pays_nothing(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, max_attempts=1)
    released_at = clock.advance(seconds=1)
    verdict = await release(store, claim)
    assert verdict.state is State.SCHEDULED
    stored = await store.get(claim.job.id)
    assert (stored.state, stored.attempt_count, stored.release_count, stored.scheduled_at, stored.completed_at) == (
        State.SCHEDULED,
        0,
        1,
        released_at,
        None,
    )
    assert (await take_one(store)).job.attempt_count == 1


@needs(Capability.WHOLE_JOBS)
async def test_a_job_is_refunded_twenty_times_and_pays_from_then_on(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, max_attempts=2)
    for n in range(MAX_RELEASES):
        claim = await take_one(store)
        assert claim.job.attempt_count == 1
        assert (await release(store, claim)).state is State.SCHEDULED
        assert (await store.get(job_id)).release_count == n + 1
    assert (await release(store, await take_one(store))).state is State.RETRYING
    stored = await store.get(job_id)
    assert (stored.attempt_count, stored.release_count) == (1, MAX_RELEASES)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    assert (await release(store, await take_one(store))).state is State.DEAD_LETTER
    assert (await store.get(job_id)).attempt_count == 2


async def test_a_handler_that_stopped_on_request_leaves_a_cancelled_job(store: SqlStore) -> None:
    claim = await taken(store)
    verdict = await end(store, claim, Cancelled("the user closed the tab"))
    assert verdict.state is State.CANCELLED
    stored = await store.get(claim.job.id)
    assert stored.error_document is not None
    assert (stored.error_document["category"], stored.error_document["message"]) == (
        "cancelled",
        "the user closed the tab",
    )


async def test_a_batch_of_outcomes_is_settled_together(store: SqlStore) -> None:
    await store.submit_many([job() for _ in range(5)])
    claims = await take(store)
    outcomes: list[Outcome] = [Success(b"1"), failure(Category.PERMANENT), failure(), Released(), Cancelled()]
    verdicts = await store.settle([Report(c, o) for c, o in zip(claims, outcomes, strict=True)])
    expected = [State.COMPLETED, State.FAILED, State.RETRYING, State.SCHEDULED, State.CANCELLED]
    assert [verdict.state for verdict in verdicts] == expected
    assert [(await store.get(c.job.id)).state for c in claims] == expected


async def test_settling_nothing_changes_nothing(store: SqlStore) -> None:
    assert await store.settle([]) == []


async def test_a_turn_settles_and_claims_in_one_go(store: SqlStore) -> None:
    first = await taken(store)
    second = await submit(store)
    request = ClaimRequest(worker_id="w1", limit=10)
    verdicts, claims = await store.exchange([Report(first, Success(b"1"))], request)
    assert [verdict.state for verdict in verdicts] == [State.COMPLETED]
    assert [claim.job.id for claim in claims] == [second]


@needs(Capability.DEPENDENCIES)
async def test_a_turn_gives_out_what_its_own_settle_has_released(store: SqlStore) -> None:
    first = await taken(store)
    dependent = await submit(store, depends_on=(first.job.id,))
    _, claims = await store.exchange([Report(first, Success())], ClaimRequest(worker_id="w1", limit=10))
    assert [claim.job.id for claim in claims] == [dependent]


async def test_a_failure_may_say_anything_and_is_still_stored(store: SqlStore) -> None:
    claim = await taken(store)
    message = "caf\u00e9 \x00 \ud800 \U0001f600" + "x" * 10_000
    assert (await end(store, claim, failure(message=message, stack="\udcff" + "s" * 50_000))).accepted
    error = (await store.get(claim.job.id)).error_document
    assert error is not None
    assert error["message"].startswith("café")
    assert len(error["message"]) <= 4_000
    assert len(error["stack"]) <= 16_000


async def test_a_retry_after_beyond_all_reason_does_not_break_the_settle(store: SqlStore) -> None:
    claim = await taken(store)
    verdict = await fail(store, claim, retry_after_us=10**30)
    assert (verdict.accepted, verdict.state) == (True, State.RETRYING)
    assert (await store.get(claim.job.id)).state is State.RETRYING


# --- attempts ------------------------------------------------------------------------------------------


async def test_every_attempt_is_kept_with_its_outcome(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, max_attempts=5)
    for worker, act in (("w1", fail), ("w2", release), ("w3", complete)):
        claim = await take_one(store, worker_id=worker)
        clock.advance(seconds=2)
        await act(store, claim)
        clock.advance(minutes=1)
        await store.sweeps.promote()
    attempts = await store.attempts(job_id)
    assert [(a.attempt_id, a.attempt, a.worker_id, a.outcome) for a in attempts] == [
        (f"{job_id}:1", 1, "w1", "temporary"),
        (f"{job_id}:2", 2, "w2", "released"),
        (f"{job_id}:3", 2, "w3", "completed"),
    ]
    assert all(a.ended_at == a.started_at + 2 * SECOND for a in attempts)
    assert [a.error is None for a in attempts] == [False, True, True]
    assert msgspec.json.decode(attempts[0].error or "")["attempt"] == 1


async def test_the_open_attempt_is_listed_last(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await release(store, claim)
    started_at = clock.advance(seconds=1)
    await take_one(store, worker_id="w2")
    closed, running = await store.attempts(claim.job.id)
    assert closed.outcome == "released"
    assert (running.claim_version, running.attempt, running.worker_id, running.started_at) == (2, 1, "w2", started_at)
    assert (running.ended_at, running.outcome, running.error) == (None, None, None)


async def test_a_job_that_never_ran_has_no_attempts(store: SqlStore) -> None:
    job_id = await submit(store)
    await store.cancel(job_id)
    assert await store.attempts(job_id) == []


async def test_a_retry_knows_the_attempt_before_it(store: SqlStore, clock: FrozenClock) -> None:
    first = await taken(store)
    assert first.job.previous_attempt_id is None
    await fail(store, first)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    second = await take_one(store)
    assert second.job.previous_attempt_id == first.job.attempt_id


async def test_an_attempt_records_its_own_end_and_not_the_jobs_later_fate(store: SqlStore) -> None:
    claim = await taken(store)
    await fail(store, claim, Category.PERMANENT)
    await store.retry(claim.job.id)
    await stop(store, await take_one(store))
    assert [a.outcome for a in await store.attempts(claim.job.id)] == ["permanent", "cancelled"]
