"""An event exists exactly when its transition was committed: what is told, in which order, with which body."""

from __future__ import annotations

import msgspec
import pytest

from euterpe.model.claims.exchange import ProgressUpdate, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.failures.failure import Category
from euterpe.model.state import TRANSCODE_STAGES
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    CALLBACK,
    HOUR,
    MINUTE,
    complete,
    fail,
    job,
    release,
    stop,
    submit,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import needs

pytestmark = needs(Capability.OUTBOX)


async def events_of(store: SqlStore, job_id: str | None = None) -> list[OutboxEvent]:
    """Oldest first. A search leaves the bodies out."""
    found = reversed(await store.outbox.search(job_id=job_id, limit=1000))
    return [await store.outbox.get(event.id) for _, event in found]


async def told(store: SqlStore, job_id: str | None = None) -> list[str]:
    return [event.type for event in await events_of(store, job_id)]


def document(event: OutboxEvent) -> dict[str, object]:
    body: dict[str, object] = msgspec.json.decode(event.body)
    return body


async def test_every_told_transition_has_one_event_and_waiting_states_have_none(
    store: SqlStore, clock: FrozenClock
) -> None:
    first = await taken(store, "a")
    job_id = await submit(store, depends_on=(first.job.id,), delay_us=MINUTE, callback_url=CALLBACK)
    await complete(store, first)
    clock.advance(us=MINUTE)
    await store.sweeps.promote()
    assert await told(store) == []
    await fail(store, await take_one(store))
    clock.advance(minutes=1)
    await store.sweeps.promote()
    await release(store, await take_one(store))
    await complete(store, await take_one(store))
    assert await told(store, job_id) == ["job.running", "job.retrying", "job.running", "job.running", "job.completed"]


async def test_a_job_without_a_callback_tells_nothing(store: SqlStore, tables: Tables) -> None:
    claim = await taken(store)
    await complete(store, claim)
    assert await tables.run("SELECT COUNT(*) FROM job_outbox_events") == [(0,)]


async def test_sequences_grow_with_every_event_of_a_job(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES, callback_url=CALLBACK, max_attempts=2)
    for stage in TRANSCODE_STAGES[1:]:
        await store.update_progress([ProgressUpdate(claim, stage=stage)])
    await fail(store, claim)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    await fail(store, await take_one(store))
    sequences = [event.sequence for event in await events_of(store, claim.job.id)]
    assert len(sequences) == 7
    assert sequences == sorted(set(sequences))


async def test_a_stage_is_told_with_its_status(store: SqlStore) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES, callback_url=CALLBACK)
    await store.update_progress([ProgressUpdate(claim, stage="fetching")])
    await store.update_progress([ProgressUpdate(claim, progress=50.0)])
    events = await events_of(store)
    statuses = [document(e)["job"]["status"] for e in events]  # type: ignore[index]
    assert statuses == ["claimed", "fetching"]


async def test_terminal_only_tells_ends_alone(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, callback_url=CALLBACK, callback_events="terminal", stages=TRANSCODE_STAGES[:2])
    await store.update_progress([ProgressUpdate(claim, stage="fetching")])
    await fail(store, claim)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    again = await take_one(store)
    await store.update_progress([ProgressUpdate(again, stage="fetching")])
    await complete(store, again)
    assert await told(store) == ["job.completed"]


async def test_a_success_carries_its_outputs(store: SqlStore) -> None:
    claim = await taken(store, callback_url=CALLBACK)
    await complete(store, claim, b'{"files": ["a.mp3"]}')
    event = (await events_of(store))[-1]
    body = document(event)
    assert (body["type"], body["outputs"]) == ("job.completed", {"files": ["a.mp3"]})
    assert "error" not in body


@pytest.mark.parametrize(
    ("category", "kind"), [(Category.PERMANENT, "job.failed"), (Category.TEMPORARY, "job.dead_letter")]
)
async def test_a_failure_carries_its_normalized_error(store: SqlStore, category: Category, kind: str) -> None:
    claim = await taken(store, callback_url=CALLBACK, max_attempts=1)
    await fail(store, claim, category, code="source.gone")
    body = document((await events_of(store))[-1])
    assert body["type"] == kind
    assert body["error"] == {
        "code": "source.gone",
        "category": str(category),
        "message": "no luck",
        "retryable": False,
        "attempt": 1,
    }
    assert "outputs" not in body


@needs(Capability.ANY_REQUESTER)
async def test_an_event_names_itself_its_job_and_its_place(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, callback_url=CALLBACK, requester_id="alice", correlation_id="c", tags={"a": "b"})
    [event] = await events_of(store)
    body = document(event)
    assert body["event_id"] == event.id
    assert (body["sequence"], body["payload_version"]) == (event.sequence, 1)
    assert body["created_at"] == "2026-01-01T00:00:00.000000Z"
    assert (event.job_id, event.requester_id, event.url) == (claim.job.id, "alice", CALLBACK)
    told_job = body["job"]
    assert isinstance(told_job, dict)
    assert (told_job["job_id"], told_job["correlation_id"], told_job["tags"]) == (claim.job.id, "c", {"a": "b"})
    assert "payload" not in told_job


@needs(Capability.WHOLE_JOBS)
async def test_dead_lettering_passes_failed_and_tells_only_its_end(store: SqlStore) -> None:
    claim = await taken(store, callback_url=CALLBACK, max_attempts=1)
    before = (await store.get(claim.job.id)).transitions
    await fail(store, claim)
    assert (await store.get(claim.job.id)).transitions == before + 2
    assert await told(store) == ["job.running", "job.dead_letter"]


async def test_every_way_to_end_is_told(store: SqlStore, clock: FrozenClock) -> None:
    waiting = await submit(store, "a", delay_us=HOUR, callback_url=CALLBACK)
    await store.cancel(waiting)
    forced = await taken(store, "b", callback_url=CALLBACK)
    await store.cancel(forced.job.id, force=True)
    asked = await taken(store, "c", callback_url=CALLBACK)
    await stop(store, asked)
    dependent = await submit(store, "d", depends_on=(waiting,), callback_url=CALLBACK)
    old = await submit(store, "e", lifetime_us=MINUTE, delay_us=MINUTE - 1, callback_url=CALLBACK)
    lost = await taken(store, "f", max_attempts=1, callback_url=CALLBACK)
    clock.advance(minutes=10)
    await store.sweeps.urgent()
    ends = {
        waiting: "job.cancelled",
        forced.job.id: "job.cancelled",
        asked.job.id: "job.cancelled",
        dependent: "job.cancelled",
        old: "job.dead_letter",
        lost.job.id: "job.dead_letter",
    }
    for job_id, kind in ends.items():
        assert (await told(store, job_id))[-1] == kind


async def test_a_dependent_that_ends_with_its_dependency_is_told(store: SqlStore) -> None:
    claim = await taken(store, "a")
    line = [await submit(store, "b", depends_on=(claim.job.id,), callback_url=CALLBACK)]
    line.append(await submit(store, "c", depends_on=(line[-1],), callback_url=CALLBACK))
    await fail(store, claim, Category.PERMANENT)
    assert [await told(store, job_id) for job_id in line] == [["job.failed"], ["job.failed"]]


@needs(Capability.CONTROL_PLANE)  # Families of events are for services beside the database.
async def test_a_dependent_that_is_let_go_is_told_where_its_callback_hears_of_that(store: SqlStore) -> None:
    first = await taken(store, "a")
    after = [
        await submit(store, depends_on=(first.job.id,), callback_url=CALLBACK, callback_events=events)
        for events in ("media.*", "all")
    ]
    await complete(store, first)
    assert [await told(store, job_id) for job_id in after] == [["media.queued"], []]


async def test_a_batch_tells_each_of_its_jobs_once(store: SqlStore) -> None:
    await store.submit_many([job(callback_url=CALLBACK) for _ in range(20)])
    claims = await take(store)
    await store.settle([Report(c, Success(b"1")) for c in claims])
    for claim in claims:
        assert await told(store, claim.job.id) == ["job.running", "job.completed"]


async def test_an_event_id_is_used_once(store: SqlStore) -> None:
    await store.submit_many([job(callback_url=CALLBACK) for _ in range(20)])
    await take(store)
    events = await events_of(store)
    assert len({event.id for event in events}) == 20


async def test_a_claim_that_only_parked_a_job_tells_nothing(store: SqlStore) -> None:
    await store.submit_many([job(callback_url=CALLBACK, concurrency_key="k", concurrency_limit=1) for _ in range(3)])
    await take(store)
    assert await told(store) == ["job.running"]
