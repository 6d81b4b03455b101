"""Events under the names of a family: data on the job, so that whoever moves it writes the same event."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from euterpe.backends.engines import connect
from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.errors import InvalidInput
from euterpe.model.events.callback_events import family_of
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import TRANSCODE_STAGES, State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore
from tests.sql_stores import sql

AGAIN = Failed(Failure(Category.TEMPORARY, "later", "storage.down", retry_after_us=0, details={"stage": "fetching"}))
NEVER = Failed(Failure(Category.PERMANENT, "never", "media.bad"))
HOPELESS = Failed(Failure(Category.SYSTEM, "the seal is broken", "credentials.unreadable", give_up=True))


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[SqlStore]:
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "fresh_postgres_url")
    backend = connect(url)
    await backend.open()
    yield sql(backend.store)
    await backend.close()


async def submit(store: SqlStore) -> str:
    said = Submission(
        type="work",
        stages=TRANSCODE_STAGES,
        callback_url="https://example.com/hook",
        callback_events="media.*",
        correlation_id="mine",
        max_attempts=4,
    )
    return (await store.submit(said)).job_id


async def claimed(store: SqlStore) -> Claim:
    (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=1))
    return claim


async def settle(store: SqlStore, claim: Claim, outcome: Outcome) -> None:
    (verdict,) = await store.settle([Report(claim, outcome)])
    assert verdict.accepted


async def told(store: SqlStore, job_id: str) -> list[str]:
    events = sorted((event.sequence, event.type) for _, event in await store.outbox.search(job_id=job_id))
    assert len({sequence for sequence, _ in events}) == len(events)
    return [kind.removeprefix("media.") for _, kind in events]


async def test_every_change_of_status_is_told_under_the_names_of_the_family(store: SqlStore) -> None:
    job_id = await submit(store)
    await settle(store, await claimed(store), Released())
    claim = await claimed(store)
    for stage in TRANSCODE_STAGES[1:]:
        assert await store.update_progress([ProgressUpdate(claim, stage=stage)]) == [True]
    await settle(store, claim, Success(b'{"outputs": [{"id": "a"}], "job": "not this"}'))
    stages = ["claimed", "fetching", "processing", "uploading", "succeeded"]
    assert await told(store, job_id) == ["claimed", "queued", *stages]
    last = max((event for _, event in await store.outbox.search(job_id=job_id)), key=lambda event: event.sequence)
    body = msgspec.json.decode((await store.outbox.get(last.id)).body)
    assert (body["outputs"], body["job"]["status"], body["job"]["external_id"]) == ([{"id": "a"}], "succeeded", "mine")


async def test_a_job_that_failed_and_is_retried_by_hand_is_queued_again(store: SqlStore) -> None:
    job_id = await submit(store)
    await settle(store, await claimed(store), NEVER)
    await store.retry(job_id)
    assert await told(store, job_id) == ["claimed", "failed", "queued"]


async def test_a_failure_that_gives_up_makes_a_dead_letter_whatever_the_budget(store: SqlStore) -> None:
    job_id = await submit(store)
    await settle(store, await claimed(store), HOPELESS)
    job = await store.get(job_id)
    assert (job.state, job.attempt_count, job.max_attempts) == (State.DEAD_LETTER, 1, 4)
    assert await told(store, job_id) == ["claimed", "dead_letter"]


async def test_the_details_of_a_failure_are_members_of_its_error(store: SqlStore) -> None:
    job_id = await submit(store)
    await settle(store, await claimed(store), AGAIN)
    error = (await store.get(job_id)).error_document
    assert error is not None
    assert (error["code"], error["stage"], error["retryable"]) == ("storage.down", "fetching", True)
    assert await told(store, job_id) == ["claimed", "queued"]


@pytest.mark.parametrize("said", ["job.*", "Media.*", "*", "media.", "media.*x", "", "some"])
async def test_a_family_has_a_plain_name_that_is_not_taken(sqlite_url: str, said: str) -> None:
    assert family_of(said) is None
    backend = connect(sqlite_url)
    await backend.open()
    try:
        with pytest.raises(InvalidInput, match="callback_events"):
            await backend.store.submit(Submission(type="work", callback_events=said))
    finally:
        await backend.close()
