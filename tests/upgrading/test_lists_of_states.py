"""SQLite: the lists of states cost a quarter of a job's writes, and are taken out of a schema that can be edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.sqlite import engine as apsw_engine
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.sqlite.libsql import LibsqlEngine
from euterpe.stores.sql.sqlite.python_sqlite import PYTHON
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import submit, take
from tests.upgrading.test_upgrading import load_sqlite

TRIGGER = "CREATE TRIGGER ours AFTER UPDATE ON inbox_jobs BEGIN SELECT 1; END"
ENGINES: tuple[Callable[[str], Engine], ...] = (
    SqliteEngine,
    LibsqlEngine,
    lambda path: SqliteEngine(path, library=PYTHON),
)


def schema_of(file: Path) -> dict[str, str]:
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return dict(rows)


@pytest.mark.parametrize("make", ENGINES, ids=["apsw", "libsql", "python"])
async def test_a_new_file_has_none(tmp_path: Path, make: Callable[[str], Engine]) -> None:
    await make(str(tmp_path / "jobs.db")).migrate()
    schema = schema_of(tmp_path / "jobs.db")
    for table in ("inbox_jobs", "job_outbox_events"):
        assert "state IN" not in schema[table]
        assert "running_means_leased CHECK" in schema[table]


async def test_an_old_file_loses_them_and_keeps_what_the_application_added(tmp_path: Path) -> None:
    load_sqlite(tmp_path)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute(TRIGGER)
    connection.close()
    assert "state IN" in schema_of(tmp_path / "jobs.db")["inbox_jobs"]
    await SqliteEngine(str(tmp_path / "jobs.db")).migrate()
    schema = schema_of(tmp_path / "jobs.db")
    assert "state IN" not in schema["inbox_jobs"] + schema["job_outbox_events"]
    assert schema["ours"] == TRIGGER


async def test_a_database_that_lets_nobody_edit_its_schema_works_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = apsw_engine.connect

    def defensive(path: str, *wait: Callable[[int], bool]) -> apsw.Connection:
        connection = connect(path, *wait)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        return connection

    monkeypatch.setattr(apsw_engine, "connect", defensive)
    engine = SqliteEngine(str(tmp_path / "jobs.db"))
    assert "no_list_of_states" in await engine.migrate()
    assert "state IN" in schema_of(tmp_path / "jobs.db")["inbox_jobs"]
    store = SqlStore(engine)
    await store.open()
    await submit(store)
    assert len(await take(store)) == 1
    await store.close()
