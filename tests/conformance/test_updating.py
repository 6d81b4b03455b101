"""What may be changed of a job after its submission, and the one move of an operator that ends in the dead letter."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.errors import IllegalTransition, InvalidInput, JobNotFound
from euterpe.model.reading.views import Search
from euterpe.model.state import WAITING, State
from euterpe.model.submitting.changes import Changes
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, complete, submit, submit_in, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs

OTHER = "https://elsewhere.example/hook"


@pytest.mark.parametrize("state", sorted(State))
@needs(Capability.OUTBOX)
async def test_tags_correlation_id_and_callback_change_in_every_state(
    store: SqlStore, clock: FrozenClock, state: State
) -> None:
    before = await submit_in(store, state, tags={"a": "1"}, correlation_id="c", callback_url=CALLBACK)
    clock.advance(minutes=1)
    after = await store.update(before.id, Changes(tags={"b": "2"}, correlation_id="d", callback_url=OTHER))
    assert (after.tags, after.correlation_id, after.callback_url) == ({"b": "2"}, "d", OTHER)
    assert (after.state, after.updated_at) == (before.state, before.updated_at), "no state has changed"
    assert (after.type, after.payload, after.priority) == (before.type, before.payload, before.priority)
    gone = await store.update(before.id, Changes(tags=None, correlation_id=None, callback_url=None))
    assert (gone.tags, gone.correlation_id, gone.callback_url) == ({}, None, None)
    assert await store.get(before.id) == gone


@pytest.mark.parametrize("state", sorted(State))
async def test_the_priority_changes_only_while_the_job_waits(store: SqlStore, state: State) -> None:
    job = await submit_in(store, state)
    if state in WAITING:
        assert (await store.update(job.id, Changes(priority=0))).priority == 0
    else:
        with pytest.raises(IllegalTransition):
            await store.update(job.id, Changes(priority=0, tags={"x": "y"}))
        assert await store.get(job.id) == job, "nothing of it is written"


async def test_a_new_priority_decides_the_next_claim(store: SqlStore) -> None:
    first, second = await submit(store), await submit(store)
    await store.update(second, Changes(priority=0))
    assert [claim.job.id for claim in await take(store)] == [second, first]


@needs(Capability.OUTBOX, Capability.SEARCH)
async def test_new_tags_are_found_and_a_new_callback_is_told(store: SqlStore) -> None:
    claim = await taken(store, tags={"team": "a"})
    await store.update(claim.job.id, Changes(tags={"team": "b"}, callback_url=OTHER))
    assert [job.id for job in (await store.search(Search(tag=("team", "b")))).jobs] == [claim.job.id]
    assert (await store.search(Search(tag=("team", "a")))).jobs == []
    assert (await complete(store, claim)).accepted
    assert [(e.type, e.url) for _, e in await store.outbox.search()] == [("job.completed", OTHER)]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({}, "changes"),
        ({"priority": 5}, "priority"),
        ({"tags": {"": "x"}}, "tags"),
        ({"correlation_id": "\x00"}, "correlation_id"),
        ({"callback_url": "http://["}, "callback_url"),
    ],
)
async def test_a_bad_change_is_refused_by_the_name_of_its_field(
    store: SqlStore, said: dict[str, Any], field: str
) -> None:
    job_id = await submit(store)
    with pytest.raises(InvalidInput) as refused:
        await store.update(job_id, Changes(**said))
    assert refused.value.field == field


async def test_a_job_that_is_not_there_cannot_be_changed(store: SqlStore) -> None:
    with pytest.raises(JobNotFound):
        await store.update("3f0c2a5e-8a54-4a0e-9d5b-6a2f5f6f4f11", Changes(priority=1))


async def test_progress_is_no_change_of_state(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store, stages=("claimed", "one"))
    began = (await store.get(claim.job.id)).updated_at
    clock.advance(minutes=1)
    await store.update_progress([ProgressUpdate(claim, progress=10.0)])
    await store.cancel(claim.job.id)
    assert (await store.get(claim.job.id)).updated_at == began
    moved = clock.advance(seconds=1)
    await store.update_progress([ProgressUpdate(claim, stage="one")])
    assert (await store.get(claim.job.id)).updated_at == moved


@pytest.mark.parametrize("state", sorted(State))
@needs(Capability.OUTBOX)
async def test_only_a_failed_job_is_sent_to_the_dead_letter(store: SqlStore, state: State) -> None:
    job = await submit_in(store, state, callback_url=CALLBACK)
    if state is not State.FAILED:
        with pytest.raises(IllegalTransition):
            await store.dead_letter(job.id)
        assert (await store.get(job.id)).state is state
        return
    assert await store.dead_letter(job.id) is State.DEAD_LETTER
    assert (await store.get(job.id)).state is State.DEAD_LETTER
    assert "job.dead_letter" in [event.type for _, event in await store.outbox.search(job_id=job.id)]
