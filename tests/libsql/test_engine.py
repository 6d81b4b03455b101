"""libsql under the store: what its driver does not do by itself, the engine does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import libsql
import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.errors import InvalidInput, StoreUnavailable
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.program import MakeProgram, Program, one
from euterpe.stores.sql.sqlite import library
from euterpe.stores.sql.sqlite.libsql import LibsqlEngine, LibsqlSession, fetch
from euterpe.stores.sql.store import SqlStore

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(LibsqlEngine(f"libsql:///{tmp_path / 'jobs.db'}"))
    await store.engine.migrate()
    await store.open()
    yield store
    await store.close()


def sessions(store: SqlStore) -> list[LibsqlSession]:
    engine = store.engine
    assert isinstance(engine, LibsqlEngine)
    return [slot.session for slot in engine._slots if isinstance(slot.session, LibsqlSession)]


def writer(store: SqlStore) -> LibsqlSession:
    return sessions(store)[0]


async def test_a_local_file_is_durable_at_every_commit(store: SqlStore) -> None:
    assert writer(store).run("PRAGMA journal_mode") == [("wal",)]
    assert writer(store).run("PRAGMA synchronous") == [(2,)]


async def test_integers_keep_every_digit(store: SqlStore) -> None:
    run_at = time.time_ns() // 1000 + 1_234_567
    submitted = await store.submit(Submission(type="a", run_at=run_at))
    assert (await store.get(submitted.job_id)).run_at == run_at
    for number in (2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)):
        assert fetch(writer(store)._connection, "SELECT ?1, ?2, ?1", (number, "x")) == [(number, "x", number)]


async def test_a_parameter_is_not_mistaken_for_one_whose_number_it_begins(store: SqlStore) -> None:
    wide = 2**40
    marks = ", ".join(f"?{i}" for i in range(1, 13))
    values = [wide, *range(2, 12), -wide]
    assert fetch(writer(store)._connection, f"SELECT {marks}", values) == [tuple(values)]


async def test_bytes_text_and_nothing_come_back_as_they_went(store: SqlStore) -> None:
    connection = writer(store)._connection
    given = (b"\x00\xff", bytearray(b"ab"), memoryview(b"cd"), "ü🎵", None, 1.5, True)
    assert fetch(connection, "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7", given) == [
        (b"\x00\xff", b"ab", b"cd", "ü🎵", None, 1.5, 1)
    ]


async def test_a_statement_that_returns_rows_runs_once(store: SqlStore) -> None:
    """The driver runs a statement again when it is read past its end."""
    connection = writer(store)._connection
    fetch(connection, "CREATE TABLE t (x)", ())
    assert fetch(connection, "INSERT INTO t VALUES (1) RETURNING x", ()) == [(1,)]
    assert fetch(connection, "SELECT count(*) FROM t", ()) == [(1,)]


async def test_a_rejected_program_does_not_touch_the_others_of_its_group(store: SqlStore) -> None:
    def good(name: str) -> MakeProgram[None]:
        def program() -> Program[None]:
            yield one("pause", kind="queue", name=name)

        return program

    def bad() -> Program[None]:
        yield one("pause", kind="queue", name="half done")
        yield one("pause", kind="nonsense", name="x")

    answers = await asyncio.gather(
        *(store.engine.write(make) for make in (good("a"), bad, good("b"))), return_exceptions=True
    )
    assert [type(answer).__name__ for answer in answers] == ["NoneType", "DataRejected", "NoneType"]
    rows = writer(store).run("SELECT name FROM euterpe_pauses ORDER BY name")
    assert rows == [("a",), ("b",)]


async def test_a_full_disk_is_named_and_the_store_goes_on_when_there_is_room(store: SqlStore) -> None:
    session = writer(store)
    session.run("PRAGMA max_page_count = 1")  # the least it takes is what is used already
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await store.submit(Submission(type="a", payload=b"x" * 900_000))
    session.run("PRAGMA max_page_count = 1000000")
    await store.submit(Submission(type="a"))


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for act in (LibsqlEngine(str(tmp_path / "none" / "jobs.db")).migrate, LibsqlEngine(str(tmp_path)).open):
        with pytest.raises(StoreUnavailable, match="cannot be opened; check that its folder exists"):
            await act()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"a diary, not a database " * 1000)
    with pytest.raises(StoreUnavailable, match="is not a SQLite database"):
        await LibsqlEngine(str(tmp_path / "jobs.db")).migrate()


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await LibsqlEngine(str(path)).migrate()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    with pytest.raises(StoreUnavailable, match="damaged"):
        await LibsqlEngine(str(path)).open()


async def test_a_driver_that_panics_costs_one_answer_and_not_the_writer(store: SqlStore) -> None:
    writer(store).close()
    with pytest.raises(StoreUnavailable, match="driver failed"):
        await store.submit(Submission(type="a"))
    await store.submit(Submission(type="a"))


HOLD_THE_LOCK = """
import libsql, sys
connection = libsql.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""


def hold_the_lock(path: str) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def let_go(holder: subprocess.Popen[str]) -> None:
    holder.communicate(timeout=30)
    assert holder.returncode == 0


async def test_waiting_for_another_process_leaves_the_loop_and_its_threads_free(
    store: SqlStore, tmp_path: Path
) -> None:
    """The driver would wait with the interpreter lock in its hands; so it never waits."""
    holder = await asyncio.to_thread(hold_the_lock, str(tmp_path / "jobs.db"))
    waiting = asyncio.create_task(store.submit(Submission(type="a")))
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not waiting.done()
    await asyncio.to_thread(let_go, holder)
    await waiting


async def test_a_lock_that_is_never_let_go_is_named(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "LOCK_PATIENCE_S", 0.05)
    holder = await asyncio.to_thread(hold_the_lock, str(tmp_path / "jobs.db"))
    with pytest.raises(StoreUnavailable, match="held the write lock"):
        await store.submit(Submission(type="a"))
    await asyncio.to_thread(let_go, holder)
    await store.submit(Submission(type="a"))


SUBMIT_AND_CLAIM = """
import asyncio, sys
from euterpe.model.submitting.submission import Submission
from euterpe.model.claims.exchange import ClaimRequest
from euterpe.stores.sql.sqlite.libsql import LibsqlEngine
from euterpe.stores.sql.store import SqlStore

async def main():
    store = SqlStore(LibsqlEngine(sys.argv[1]))
    await store.engine.migrate()
    await store.open()
    for _ in range(20):
        await store.submit(Submission(type="a"))
    claimed = []
    for _ in range(20):
        claimed += await store.claim(ClaimRequest(worker_id=sys.argv[2], limit=1))
    await store.close()
    print(*(claim.job.id for claim in claimed))

asyncio.run(main())
"""


async def test_processes_share_a_file_and_none_sees_a_locked_database(tmp_path: Path) -> None:
    """They also migrate it at once, from nothing."""
    path = str(tmp_path / "shared.db")
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", SUBMIT_AND_CLAIM, path, f"w{i}", cwd=ROOT,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )
        for i in range(4)
    ]  # fmt: skip
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0] * 4, outputs
    claimed = [job_id for output, _ in outputs for job_id in output.decode().split()]
    assert (len(claimed), len(set(claimed))) == (80, 80)


async def test_a_plain_path_and_both_urls_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert LibsqlEngine("libsql:///jobs.db").path == str(tmp_path / "jobs.db")
    assert LibsqlEngine("libsql:////var/my%20jobs.db").path == "/var/my jobs.db"
    assert LibsqlEngine("jobs.db").path == str(tmp_path / "jobs.db")
    await LibsqlEngine("libsql:///jobs.db").migrate()
    assert (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize("url", ["libsql:///", "libsql://", "libsql:///jobs.db?syncUrl=libsql://host"])
def test_a_url_that_names_nothing_or_asks_for_a_replica_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"engine\.url"):
        LibsqlEngine(url)


async def test_work_goes_on_after_the_store_was_closed_and_opened_again(store: SqlStore) -> None:
    submitted = await store.submit(Submission(type="a"))
    await store.close()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.get(submitted.job_id)
    await store.open()
    assert [c.job.id for c in await store.claim(ClaimRequest(worker_id="w", limit=5))] == [submitted.job_id]


def test_what_we_work_around_is_still_there(tmp_path: Path) -> None:
    """Should this fail, a newer driver has mended something and `stores/sql/sqlite/libsql.py` can be simpler."""
    connection: Any = libsql.connect(str(tmp_path / "t.db"), isolation_level=None)
    assert connection.execute("SELECT typeof(?)", (2**40,)).fetchall() == [("real",)]
    assert connection.execute("SELECT ?", ("a\x00b",)).fetchall() == [("a",)]  # NUL in text is refused at submission
    cursor = connection.execute("SELECT 1")
    assert (cursor.fetchall(), cursor.fetchall()) == ([(1,)], [(1,)])
    with pytest.raises(ValueError, match="no such table"):
        connection.execute("SELECT * FROM nowhere")
    connection.close()
