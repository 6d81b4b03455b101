"""A store that is cut off while it opens, or whose driver raises what nobody expects, leaves nothing behind."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.sqlite.engine import ApswLibrary, SqliteEngine
from euterpe.stores.sql.store import SqlStore
from tests.cancellation.cutting import When, cut_off
from tests.faults.conftest import prepared
from tests.faults.crew import until
from tests.faults.recorder import rows
from tests.faults.stores import engine_of, sqlite_path
from tests.patience import PATIENCE_S

MOST_POINTS = 200


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest) -> str:
    fixture = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    return await prepared(request.getfixturevalue(fixture))


@pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())
async def test_a_store_that_was_cut_off_while_it_opened_or_closed_can_be_opened(url: str, when: When) -> None:
    store = SqlStore(engine_of(url))
    for at in range(MOST_POINTS):
        cut_opening = await cut_off(store.open(), at, when)
        await store.open()
        await store.submit(Submission(type="t"))
        cut_closing = await cut_off(store.close(), at, when)
        await store.close()
        if not (cut_opening or cut_closing):
            break
    assert rows(url, "SELECT count(*) FROM inbox_jobs") == [(at + 1,)]


async def test_opens_and_closes_that_were_cut_off_leave_no_connections(
    fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepared(fresh_postgres_url)
    name = f"opens_{secrets.token_hex(4)}"
    monkeypatch.setattr("euterpe.stores.sql.postgres.session.APPLICATION", name)

    for at in range(MOST_POINTS):
        engine = PostgresEngine(fresh_postgres_url)
        await cut_off(engine.open(), at % 12, list(When)[at % 3])
        await cut_off(engine.close(), at % 5, list(When)[at % 3])

    async def all_gone() -> bool:
        count = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'"
        return rows(fresh_postgres_url, count) == [(0,)]

    await until(all_gone, within_s=30)


class Foreign(Exception):
    """No error of any driver."""


async def test_an_error_that_no_driver_has_is_raised_by_open_on_sqlite(sqlite_url: str) -> None:
    class Broken(ApswLibrary):
        def connect(self, path: str) -> object:  # type: ignore[override]  # it never returns
            raise Foreign(path)

    engine = SqliteEngine(sqlite_path(sqlite_url), library=Broken())
    with pytest.raises(Foreign):
        async with asyncio.timeout(PATIENCE_S):
            await engine.open()
    assert not engine.is_open


async def test_an_error_that_no_driver_has_is_raised_by_open_on_postgres(
    fresh_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_args: object, **_options: object) -> None:
        raise Foreign

    monkeypatch.setattr("asyncpg.connect", broken)
    with pytest.raises(Foreign):
        async with asyncio.timeout(PATIENCE_S):
            await PostgresEngine(fresh_postgres_url).open()
