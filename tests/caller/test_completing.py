"""A job that its handler completes inside its own transaction ends with it, whatever library the handler uses."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import IllegalTransition, StaleLease
from euterpe.model.job import Claim
from euterpe.model.state import State
from tests.caller.conftest import Scene
from tests.conformance.acts import CALLBACK, complete, submit, take, take_one, taken


def ended(claim: Claim, result: bytes) -> Report:
    return Report(claim, Success(result))


async def test_the_callers_row_and_the_end_of_the_job_with_all_its_effects_are_committed_together(scene: Scene) -> None:
    shared: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
    claim = await taken(scene.store, callback_url=CALLBACK, **shared)
    dependent = await submit(scene.store, "dependent", depends_on=(claim.job.id,))
    await submit(scene.store, "parked", **shared)
    assert await take(scene.store, types=("parked",)) == []
    await scene.caller.begin()
    await scene.caller.order()
    await scene.store.complete_on(ended(claim, b'{"sent":1}'), scene.caller.connection)
    assert await scene.store.completed([claim]) == [False], "nobody may see it before the commit"
    await scene.caller.commit()
    job = await scene.store.get(claim.job.id)
    assert (job.state, job.result, await scene.orders()) == (State.COMPLETED, b'{"sent":1}', 1)
    assert await scene.store.completed([claim]) == [True]
    assert (await scene.store.get(dependent)).state is State.SCHEDULED
    assert [parked.job.type for parked in await take(scene.store, types=("parked",))] == ["parked"]
    assert sum('"completed"' in event for event in (await scene.rows())["job_outbox_events"]) == 1


async def test_a_rollback_leaves_the_job_to_the_ordinary_settle(scene: Scene) -> None:
    claim = await taken(scene.store, callback_url=CALLBACK)
    before = await scene.rows()
    await scene.caller.begin()
    await scene.caller.order()
    await scene.store.complete_on(ended(claim, b"1"), scene.caller.connection)
    await scene.caller.rollback()
    assert await scene.rows() == before
    assert (await complete(scene.store, claim)).accepted


async def test_a_stale_attempt_cannot_commit_what_its_handler_wrote(scene: Scene) -> None:
    stale = await taken(scene.store)
    await scene.store.cancel(stale.job.id, force=True)
    before = await scene.rows()
    await scene.caller.begin()
    await scene.caller.order()
    with pytest.raises(StaleLease):
        await scene.store.complete_on(ended(stale, b"1"), scene.caller.connection)

    # The handler catches the error and goes on as if nothing were.
    async def go_on() -> None:
        await scene.caller.order()
        await scene.caller.commit()

    with pytest.raises(Exception, match=r"(?i)stale_attempt|closed|invalid|foreign key|no active"):
        await go_on()
    with contextlib.suppress(Exception):
        await scene.caller.rollback()
    assert await scene.rows() == before


@pytest.mark.parametrize("caller_name", ["aiosqlite"])
async def test_the_thread_of_a_broken_aiosqlite_connection_has_closed_it_before_the_handler_hears_of_it(
    scene: Scene,
) -> None:
    """Else a close() of the handler's own could wait for ever for a thread that has ended."""
    stale = await taken(scene.store)
    await scene.store.cancel(stale.job.id, force=True)
    await scene.caller.begin()
    with pytest.raises(StaleLease):
        await scene.store.complete_on(ended(stale, b"1"), scene.caller.connection)
    assert scene.caller.connection._connection is None
    await scene.caller.close()


@pytest.mark.parametrize("caller_name", ["psycopg", "sqlite3"])
async def test_a_job_that_has_not_walked_its_stages_is_refused_and_the_transaction_goes_on(scene: Scene) -> None:
    claim = await taken(scene.store, stages=("claimed", "fetching", "sending"))
    await scene.caller.begin()
    await scene.caller.order()
    with pytest.raises(IllegalTransition, match="sending"):
        await scene.store.complete_on(ended(claim, b"1"), scene.caller.connection)
    await scene.caller.commit()
    assert (await scene.store.get(claim.job.id)).state is State.RUNNING
    assert await scene.orders() == 1


@pytest.mark.parametrize("caller_name", ["psycopg", "sqlite3"])
async def test_a_blocking_connection_completes_without_a_coroutine_and_twice_is_once(scene: Scene) -> None:
    claim = await taken(scene.store)
    await scene.caller.begin()
    scene.store.complete_on_sync(ended(claim, b"1"), scene.caller.connection)
    scene.store.complete_on_sync(ended(claim, b"1"), scene.caller.connection)
    await scene.caller.commit()
    assert await scene.store.completed([claim]) == [True]
    stale = msgspec.structs.replace(claim, lease=msgspec.structs.replace(claim.lease, claim_version=9))
    assert await scene.store.completed([stale]) == [False]
    await submit(scene.store, "next")
    assert (await take_one(scene.store)).job.type == "next"
