"""Two SQLite libraries in one process do not see each other's locks, so the queue goes over to the application's."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.sqlite.engine import APSW, SqliteEngine
from euterpe.stores.sql.sqlite.python_sqlite import PYTHON
from euterpe.stores.sql.store import SqlStore


def mail(**fields: Any) -> Unit:
    return Unit(drafts_of([Submission(type="mail", **fields)]))


async def opened(path: Path) -> tuple[SqlStore, SqliteEngine]:
    engine = SqliteEngine(str(path))
    await engine.migrate()
    store = SqlStore(engine)
    await store.open()
    return store, engine


@pytest.mark.skipif(not apsw.using_amalgamation, reason="apsw uses the very library that Python does")
def test_two_libraries_in_one_process_really_do_not_see_each_others_locks(tmp_path: Path) -> None:
    """Why all of this is needed. Should this ever fail, the care can go."""
    first = apsw.Connection(str(tmp_path / "t.db"))
    first.execute("PRAGMA journal_mode = WAL")
    first.execute("CREATE TABLE t (x)")
    second = sqlite3.connect(tmp_path / "t.db", isolation_level=None, timeout=0)
    first.execute("BEGIN IMMEDIATE")
    second.execute("BEGIN IMMEDIATE")
    second.execute("ROLLBACK")
    first.execute("ROLLBACK")
    first.close()
    second.close()


async def test_the_queue_uses_its_own_library_while_the_application_does_not_touch_the_file(tmp_path: Path) -> None:
    store, engine = await opened(tmp_path / "jobs.db")
    sqlite3.connect(":memory:").close()
    sqlite3.connect(tmp_path / "other.db").close()
    assert engine.library is APSW
    await store.close()


@pytest.mark.parametrize("name", ["{file}", "file:{file}?mode=rw", "{folder}/../{folder_name}/jobs.db"])
async def test_the_queue_goes_over_when_the_application_opens_the_file(tmp_path: Path, name: str) -> None:
    store, engine = await opened(tmp_path / "jobs.db")
    before = await store.submit(Submission(type="mail"))
    await store.get(before.job_id)  # a reader has the file open as well
    database = name.format(file=tmp_path / "jobs.db", folder=tmp_path, folder_name=tmp_path.name)
    connection = sqlite3.connect(database, uri=database.startswith("file:"))
    assert engine.library is PYTHON
    assert not [c for c in apsw.connections() if c.filename == str(tmp_path / "jobs.db")]
    (joined,) = await store.submit_unit_on(mail(), connection)
    connection.commit()
    after = await store.submit(Submission(type="mail"))
    for submitted in (before, joined, after):
        assert (await store.get(submitted.job_id)).state == "scheduled"
    connection.close()
    await store.close()


async def test_the_queue_starts_with_the_applications_library_if_that_has_the_file_open(tmp_path: Path) -> None:
    await SqliteEngine(str(tmp_path / "jobs.db"), library=APSW).migrate()
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute("SELECT count(*) FROM inbox_jobs")
    store, engine = await opened(tmp_path / "jobs.db")
    assert engine.library is PYTHON
    await store.submit_unit_on(mail(), connection)
    connection.commit()
    connection.close()
    await store.close()


async def test_the_application_and_the_queue_write_at_once_and_nothing_is_lost_or_damaged(tmp_path: Path) -> None:
    """Threads of the application submit in their own transactions while the queue's writer commits its own groups."""
    path = tmp_path / "jobs.db"
    store, _ = await opened(path)
    stop = threading.Event()
    joined: list[str] = []
    failures: list[BaseException] = []

    def application() -> None:
        try:
            for i in range(60):
                connection = sqlite3.connect(path, timeout=30)
                (submitted,) = store.submit_unit_on_sync(mail(), connection)
                if i % 3:
                    connection.commit()
                    joined.append(submitted.job_id)
                else:
                    connection.rollback()
                connection.close()
        except BaseException as error:  # noqa: BLE001  # shown below
            failures.append(error)

    async def queue() -> list[str]:
        stored = []
        while not stop.is_set():
            submit_results = await asyncio.gather(*(store.submit(Submission(type="mail")) for _ in range(5)))
            stored += [submitted.job_id for submitted in submit_results]
        return stored

    own = asyncio.create_task(queue())
    await asyncio.gather(*(asyncio.to_thread(application) for _ in range(3)))
    stop.set()
    stored = await own
    await store.close()
    assert not failures
    assert len(joined) == 3 * 40
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {row[0] for row in connection.execute("SELECT id FROM inbox_jobs")} == {*joined, *stored}
    connection.close()
