"""Retry, replay and bury: what an operator may do to an ended job, and that terminal stays terminal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from euterpe.model.errors import IllegalTransition, JobNotFound
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.failure import Category
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.state import LIVE, TERMINAL, TRANSCODE_STAGES, State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    complete,
    fail,
    state_of,
    submit,
    submit_in,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import needs

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def test_a_failed_job_with_budget_left_is_scheduled_again(store: SqlStore, clock: FrozenClock) -> None:
    failed = await submit_in(store, State.FAILED, max_attempts=3)
    at = clock.advance(minutes=5)
    again = await store.retry(failed.id)
    assert again.id == failed.id
    assert (again.state, again.scheduled_at, again.run_at, again.completed_at) == (State.SCHEDULED, at, at, None)
    assert again.attempt_count == 1
    claim = await take_one(store)
    assert (claim.job.attempt_count, claim.job.claim_version) == (2, 2)
    assert (await complete(store, claim)).accepted


async def test_a_failed_job_can_be_retried_only_while_its_budget_lasts(store: SqlStore) -> None:
    job_id = await submit(store, max_attempts=3)
    for _ in range(2):
        await fail(store, await take_one(store), Category.PERMANENT)
        assert (await store.retry(job_id)).id == job_id
    await fail(store, await take_one(store), Category.PERMANENT)
    spent = await store.get(job_id)
    assert spent.attempt_count == spent.max_attempts
    replay = await store.retry(job_id)
    assert replay.id != job_id
    assert replay.replay_of == job_id
    assert await store.get(job_id) == spent


@pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD_LETTER, State.CANCELLED])
async def test_retrying_any_other_ended_job_makes_a_new_one(store: SqlStore, state: State) -> None:
    ended = await submit_in(store, state)
    replay = await store.retry(ended.id)
    assert replay.id != ended.id
    assert (replay.replay_of, replay.state, replay.attempt_count) == (ended.id, State.SCHEDULED, 0)
    assert await store.get(ended.id) == ended


@needs(Capability.ANY_REQUESTER)
@needs(Capability.OUTBOX)
async def test_a_replay_is_the_same_request(store: SqlStore, clock: FrozenClock) -> None:
    said: dict[str, Any] = {
        "payload": b'{"day": "mon"}',
        "requester_id": "alice",
        "queue": "reports",
        "priority": 1,
        "max_attempts": 1,
        "execution_timeout_us": 5_000_000,
        "visibility_us": 6_000_000,
        "lifetime_us": 7_000_000_000,
        "retry": RetryPolicy(Backoff(Strategy.LINEAR, initial_us=5), on_timeout=False),
        "stages": TRANSCODE_STAGES,
        "correlation_id": "trace-1",
        "tags": {"team": "a"},
        "callback_url": CALLBACK,
        "callback_events": "terminal",
        "concurrency_key": "k",
        "concurrency_limit": 2,
        "idempotency_key": "once",
    }
    dead = await submit_in(store, State.DEAD_LETTER, **said)
    created_at = clock.advance(days=1)
    replay = await store.retry(dead.id, "alice")
    differs = {name for name in replay.__struct_fields__ if getattr(replay, name) != getattr(dead, name)}
    assert differs <= {
        "seq", "id", "replay_of", "state", "stage", "attempt_count", "claim_version", "worker_id", "heartbeat_at",
        "created_at", "updated_at", "run_at", "scheduled_at", "started_at", "completed_at", "expires_at", "error",
        "idempotency_key", "transitions",
    }  # fmt: skip
    assert replay.expires_at - replay.created_at == dead.expires_at - dead.created_at
    assert (replay.created_at, replay.idempotency_key) == (created_at, None)


@pytest.mark.parametrize("state", sorted(LIVE))
async def test_a_live_job_cannot_be_retried(store: SqlStore, state: State) -> None:
    live = await submit_in(store, state)
    with pytest.raises(IllegalTransition, match="only an ended job"):
        await store.retry(live.id)
    assert await store.get(live.id) == live


@needs(Capability.OUTBOX)
async def test_a_failed_job_can_be_buried(store: SqlStore, clock: FrozenClock) -> None:
    failed = await submit_in(store, State.FAILED, callback_url=CALLBACK)
    at = clock.advance(seconds=1)
    assert await store.dead_letter(failed.id) is State.DEAD_LETTER
    dead_lettered = await store.get(failed.id)
    assert (dead_lettered.state, dead_lettered.updated_at, dead_lettered.error) == (State.DEAD_LETTER, at, failed.error)
    events = await store.outbox.search(job_id=failed.id)
    assert [event.type for _, event in events] == ["job.dead_letter", "job.failed", "job.running"]


@pytest.mark.parametrize("state", sorted(set(State) - {State.FAILED}))
async def test_only_a_failed_job_can_be_buried(store: SqlStore, state: State) -> None:
    other = await submit_in(store, state)
    with pytest.raises(IllegalTransition):
        await store.dead_letter(other.id)
    assert await store.get(other.id) == other


@needs(Capability.ANY_REQUESTER)
@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_another_requesters_job_can_neither_be_retried_nor_buried(
    store: SqlStore, tables: Tables, state: State
) -> None:
    ended = await submit_in(store, state, requester_id="alice")
    with pytest.raises(JobNotFound):
        await store.retry(ended.id, "mallory")
    with pytest.raises(JobNotFound):
        await store.dead_letter(ended.id, "mallory")
    with pytest.raises(JobNotFound):
        await store.get(ended.id, "mallory")
    with pytest.raises(JobNotFound):
        await store.attempts(ended.id, "mallory")
    assert await store.get(ended.id, "alice") == ended
    assert await tables.run("SELECT COUNT(*) FROM inbox_jobs") == [(1,)]


@pytest.mark.parametrize("job_id", [UNKNOWN, "", "nonsense", "a\x00b", "\ud800", "1" * 5000])
async def test_a_job_that_never_was_is_not_found(store: SqlStore, job_id: str) -> None:
    for ask in (store.get, store.attempts, store.cancel, store.retry, store.dead_letter):
        with pytest.raises(JobNotFound):
            await ask(job_id)


async def test_an_id_is_the_same_job_however_its_letters_are_written(store: SqlStore) -> None:
    job_id = await submit(store)
    assert (await store.get(job_id.upper())).id == job_id
    assert await store.cancel(job_id.upper()) is State.CANCELLED


@needs(Capability.DEPENDENCIES)
async def test_a_dependency_is_the_same_job_however_its_letters_are_written(store: SqlStore) -> None:
    job_id = await submit(store)
    await store.cancel(job_id)
    dependent = await submit(store, "d", depends_on=(job_id.upper(),))
    assert await state_of(store, dependent) is State.CANCELLED


async def test_a_retry_starts_with_a_clean_slate_but_keeps_its_history(store: SqlStore) -> None:
    claim = await taken(store)
    await fail(store, claim, Category.PERMANENT, code="bad")
    again = await store.retry(claim.job.id)
    assert again.error_document is not None
    assert msgspec.json.decode(again.error or "")["code"] == "bad"
    await complete(store, await take_one(store))
    assert (await store.get(claim.job.id)).error is None
    assert len(await store.attempts(claim.job.id)) == 2
