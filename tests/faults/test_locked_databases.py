"""A database that is there, but locked by somebody: a submission is answered in its time, with nothing half done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import psycopg
import pytest

from euterpe.model.errors import CommitUnknown, StoreUnavailable
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres import session
from euterpe.stores.sql.submitting import unit_commits
from tests.faults.history import check
from tests.faults.recorder import rows
from tests.faults.stores import SQLITE, opened, sqlite_path
from tests.patience import in_time

PATIENCE_S = 6.0
SLACK_S = 2.5


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 s and 7 s in earnest."""
    monkeypatch.setattr(unit_commits, "OUTAGE_WAIT_S", PATIENCE_S)
    monkeypatch.setattr(session, "LOCK_WAIT_S", 1.2)


@contextmanager
def locked(url: str) -> Iterator[Any]:
    """Somebody's open transaction, which shuts out every writer; what is yielded ends it."""
    if url.startswith(SQLITE):
        connection: Any = apsw.Connection(sqlite_path(url))
        connection.execute("BEGIN IMMEDIATE")
    else:
        dsn, _, schema = url.partition("?schema=")
        connection = psycopg.connect(dsn)
        connection.execute(f"LOCK TABLE {schema}.inbox_jobs, {schema}.idempotency_keys IN ACCESS EXCLUSIVE MODE")
    try:
        yield lambda: connection.execute("ROLLBACK")
    finally:
        connection.close()


async def test_every_submission_is_refused_in_its_own_time_and_nothing_is_stored(database: str) -> None:
    async with opened(database) as store:
        await store.submit(Submission(type="before"))
        with locked(database):
            early = [asyncio.create_task(_refused_after_s(call)) for call in _submissions(store, "early")]
            await asyncio.wait(early, timeout=PATIENCE_S / 2)
            late = [asyncio.create_task(_refused_after_s(call)) for call in _submissions(store, "late")]
            waits_s = await asyncio.gather(*early, *late)
        print([round(wait_s, 1) for wait_s in waits_s])
        in_time(max(waits_s), PATIENCE_S + SLACK_S)
        assert rows(database, "SELECT type FROM inbox_jobs") == [("before",)]
        assert rows(database, "SELECT count(*) FROM idempotency_keys") == [(0,)]
        again = await asyncio.gather(*_submissions(store, "after"))
        assert len(again) == 4
    check(database)


async def test_a_submission_whose_lock_is_let_go_in_time_gets_its_real_answer(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_commits, "OUTAGE_WAIT_S", 60.0)
    async with opened(database) as store:
        with locked(database) as let_go:
            submits = [asyncio.create_task(_value(call)) for call in _submissions(store, "patient")]
            done, _ = await asyncio.wait(submits, timeout=PATIENCE_S / 4)
            assert not done
            let_go()
            await asyncio.gather(*submits)
    assert rows(database, "SELECT count(*) FROM inbox_jobs WHERE type = 'patient'") == [(6,)]
    check(database)


async def test_a_key_that_an_open_transaction_holds_is_waited_for_and_then_told(postgres_database: str) -> None:
    dsn, _, schema = postgres_database.partition("?schema=")
    async with opened(postgres_database) as store:
        await store.submit(Submission(type="keyed", idempotency_key="k"))
        with psycopg.connect(dsn) as holder:
            holder.execute(f"DELETE FROM {schema}.idempotency_keys")
            call = store.submit(Submission(type="keyed", idempotency_key="k"))
            in_time(await _refused_after_s(call), PATIENCE_S + SLACK_S)
            holder.rollback()
        assert (await store.submit(Submission(type="keyed", idempotency_key="k"))).replayed
    check(postgres_database)


def _submissions(store: Any, kind: str) -> list[Awaitable[Any]]:
    return [
        store.submit(Submission(type=kind)),
        store.submit(Submission(type=kind)),
        store.submit(Submission(type=kind, idempotency_key=f"{kind}-k")),
        store.submit_many([Submission(type=kind), Submission(type=kind), Submission(type=kind, priority=1)]),
    ]


async def _value(call: Awaitable[Any]) -> Any:
    return await call


async def _refused_after_s(call: Awaitable[object]) -> float:
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as refused:
        await call
    assert not isinstance(refused.value, CommitUnknown), "it is known that nothing was stored"
    return time.monotonic() - started
