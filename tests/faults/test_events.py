"""An event and its transition are one write: if the event cannot be stored, the transition has not happened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore
from tests.faults import actors
from tests.faults.history import check
from tests.faults.recorder import rows, run
from tests.faults.stores import SQLITE, opened

Move = Callable[[SqlStore, list[Claim], str], Awaitable[object]]


async def _claim(store: SqlStore, claims: list[Claim], waiting: str) -> object:
    return await store.claim(ClaimRequest(worker_id="w", limit=10))


async def _complete(store: SqlStore, claims: list[Claim], waiting: str) -> object:
    return await store.settle([Report(claim, Success(b"1")) for claim in claims])


async def _fail(store: SqlStore, claims: list[Claim], waiting: str) -> object:
    return await store.settle([Report(claim, Failed(Failure(Category.TEMPORARY, "x"))) for claim in claims])


async def _cancel(store: SqlStore, claims: list[Claim], waiting: str) -> object:
    return await store.cancel(waiting)


async def _force(store: SqlStore, claims: list[Claim], waiting: str) -> object:
    return await store.cancel(claims[0].job.id, force=True)


async def _reclaim(store: SqlStore, claims: list[Claim], waiting: str) -> object:
    return await store.sweeps.reclaim()


async def _end_lifetimes(store: SqlStore, claims: list[Claim], waiting: str) -> object:
    return await store.sweeps.end_lifetimes()


@pytest.mark.parametrize(
    "move",
    [_claim, _complete, _fail, _cancel, _force, _reclaim, _end_lifetimes],
    ids=lambda move: move.__name__.removeprefix("_"),
)
async def test_a_move_whose_event_cannot_be_stored_did_not_happen(database: str, move: Move) -> None:
    async with opened(database) as store:
        lifetime_us = 1 if move is _end_lifetimes else 10**9
        await store.submit_many([_told(lifetime_us=10**9) for _ in range(3)])
        claims = await store.claim(ClaimRequest(worker_id="w", limit=3, lease_ttl_us=1))
        waiting = await store.submit(_told(lifetime_us=lifetime_us))
        _refuse_events(database)
        before = _everything(database)
        with pytest.raises(Exception, match="no more events"):
            await move(store, claims, waiting.job_id)
        assert _everything(database) == before, "the transition was committed without its event"
        _accept_events(database)
        assert await move(store, claims, waiting.job_id)
        assert _everything(database) != before
    check(database)


async def test_the_end_of_a_dependent_is_told_with_the_end_of_its_dependency(database: str) -> None:
    async with opened(database) as store:
        first = await store.submit(_told())
        child = await store.submit(_told(depends_on=(first.job_id,)))
        grandchild = await store.submit(_told(depends_on=(child.job_id,)))
        [claim] = await store.claim(ClaimRequest(worker_id="w", limit=1))
        await store.settle([Report(claim, Failed(Failure(Category.PERMANENT, "never")))])
        assert (await store.get(grandchild.job_id)).state is State.FAILED
    history = check(database)
    assert sorted(event.type for event in history.events) == ["job.failed"] * 3 + ["job.running"]


def _told(lifetime_us: int = 10**9, depends_on: tuple[str, ...] = ()) -> Submission:
    return Submission(
        type="t",
        callback_url="http://receiver.invalid/",
        retry=actors.AT_ONCE,
        lifetime_us=lifetime_us,
        depends_on=depends_on,
    )


def _refuse_events(url: str) -> None:
    if url.startswith(SQLITE):
        run(
            url,
            "CREATE TRIGGER refuse BEFORE INSERT ON job_outbox_events BEGIN SELECT RAISE(ABORT, 'no more events'); END",
        )
    else:
        run(
            url,
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE 'no more events'; END $$;"
            "CREATE TRIGGER refuse BEFORE INSERT ON job_outbox_events"
            " FOR EACH ROW EXECUTE FUNCTION refuse()",
        )


def _accept_events(url: str) -> None:
    run(url, "DROP TRIGGER refuse" if url.startswith(SQLITE) else "DROP TRIGGER refuse ON job_outbox_events")


def _everything(url: str) -> list[list[tuple[object, ...]]]:
    tables = ("inbox_jobs", "job_attempts", "job_outbox_events")
    return [sorted(rows(url, f"SELECT * FROM {table}"), key=str) for table in tables]
