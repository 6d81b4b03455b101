"""SQLite: a small program is committed on the loop's own thread, and only where nobody but the disk is waited for."""

from __future__ import annotations

import asyncio
import math
import os
import queue
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.sqlite import library, loop_commits
from euterpe.stores.sql.sqlite.engine import ApswSession, SqliteEngine
from euterpe.stores.sql.sqlite.loop_commits import LoopCommits
from euterpe.stores.sql.sqlite.tickets import ConnectionSlot, Ticket
from euterpe.stores.sql.store import SqlStore

HOLDS_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("let go", flush=True)
"""


@pytest.fixture(autouse=True)
def patient_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine's disk may be slow; which tests mean that say so."""
    monkeypatch.setattr(loop_commits, "SLOW_S", 60.0)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(str(tmp_path / "jobs.db"))
    await engine.migrate()
    await engine.open()
    yield engine
    await engine.close()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where each commit took place."""
    seen: list[str] = []
    run, commit_at_once = ApswSession.run, ApswSession.commit_at_once

    def spy(self: ApswSession, sql: str) -> list[object]:
        if sql == "COMMIT":
            seen.append(threading.current_thread().name)
        return run(self, sql)

    def spy_at_once(self: ApswSession) -> None:
        seen.append(threading.current_thread().name)
        commit_at_once(self)

    monkeypatch.setattr(ApswSession, "run", spy)
    monkeypatch.setattr(ApswSession, "commit_at_once", spy_at_once)
    return seen


PAGE_BYTES = 4096
LOOP, WRITER = threading.main_thread().name, "euterpe-sqlite-writer"


def pausing(name: str) -> Program[str]:
    yield one("pause", kind="queue", name=name)
    return name


def refused() -> Program[str]:
    yield one("pause", kind="queue", name="never")
    raise InvalidInput("name", "is refused after it was written")


async def paused(engine: SqliteEngine) -> set[str]:
    def program() -> Program[set[str]]:
        rows = yield one("paused")
        return {row[1] for row in rows}

    return await engine.read(program)


@contextmanager
def locked(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process has begun to write, and goes on when it is told to."""
    command = [sys.executable, "-I", "-c", HOLDS_THE_LOCK, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder


def let_go(holder: subprocess.Popen[str]) -> None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    print(file=holder.stdin, flush=True)
    assert holder.stdout.readline() == "let go\n"


async def test_a_lone_submit_is_committed_on_the_loops_own_thread(engine: SqliteEngine, threads: list[str]) -> None:
    submitted = await SqlStore(engine).submit(Submission(type="t"))
    assert threads == [LOOP]
    other = apsw.Connection(engine.path)
    assert other.execute("SELECT id FROM inbox_jobs").fetchall() == [(submitted.job_id,)]
    other.close()


async def test_submits_at_once_share_commits(engine: SqliteEngine, threads: list[str]) -> None:
    store = SqlStore(engine)
    await asyncio.gather(*(store.submit(Submission(type="t")) for _ in range(50)))
    assert threads == [LOOP, WRITER], "the first, and all others together"


async def test_what_comes_in_the_same_turn_of_the_loop_takes_part(engine: SqliteEngine, threads: list[str]) -> None:
    await asyncio.gather(
        engine.write(lambda: pausing("a"), is_small=True), engine.write(lambda: pausing("b"), is_small=True)
    )
    assert threads == [LOOP]
    assert await paused(engine) == {"a", "b"}


async def test_who_takes_part_is_answered_before_who_came_first(engine: SqliteEngine) -> None:
    """A worker's claim, which begins the job, before the submit that woke the worker."""
    answered: list[str] = []

    async def write(name: str) -> None:
        answered.append(await engine.write(lambda: pausing(name), is_small=True))

    await asyncio.gather(write("submit"), write("claim"))
    assert answered == ["claim", "submit"]


async def test_a_small_one_does_not_overtake_what_the_writer_thread_has_not_begun() -> None:
    """A worker's claim must find the places that its report of a moment ago sets free."""
    loop = asyncio.get_running_loop()
    commits = LoopCommits(loop, ConnectionSlot(), queue.SimpleQueue(), lambda _slot, _group: True)
    report, claim = (
        Ticket(lambda: pausing("a"), loop, loop.create_future(), math.inf, is_small) for is_small in (False, True)
    )
    assert not commits.take(report)
    assert not commits.take(claim), "the thread has taken the report, and waits for the interpreter's lock"
    report.future.set_result(None)
    claim.future.set_result(None)
    assert commits.take(Ticket(lambda: pausing("b"), loop, loop.create_future(), math.inf, is_small=True))


async def test_what_is_not_small_takes_all_to_the_writer_in_their_order(
    engine: SqliteEngine, threads: list[str]
) -> None:
    small = engine.write(lambda: pausing("small"), is_small=True)
    large = engine.write(lambda: pausing("large"))
    await asyncio.gather(small, large)
    assert set(threads) == {WRITER}


async def test_one_that_is_refused_takes_nothing_along(engine: SqliteEngine) -> None:
    kept, thrown = await asyncio.gather(
        engine.write(lambda: pausing("kept"), is_small=True),
        engine.write(refused, is_small=True),
        return_exceptions=True,
    )
    assert kept == "kept"
    assert isinstance(thrown, InvalidInput)
    with pytest.raises(InvalidInput):
        await engine.write(refused, is_small=True)
    assert await engine.write(lambda: pausing("after"), is_small=True) == "after"
    assert await paused(engine) == {"kept", "after"}


async def test_the_loop_does_not_wait_for_another_processs_lock(
    engine: SqliteEngine, threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    loop, waits, nap = asyncio.get_running_loop(), asyncio.Event(), library.nap

    def spy() -> None:
        waited.append(threading.current_thread().name)
        loop.call_soon_threadsafe(waits.set)
        nap()

    monkeypatch.setattr("euterpe.stores.sql.sqlite.engine.nap", spy)
    store = SqlStore(engine)
    with locked(engine.path) as holder:
        submit = asyncio.create_task(store.submit(Submission(type="t")))
        await waits.wait()
        assert not submit.done()
        let_go(holder)
        await submit
    assert set(waited) == {WRITER}, "who waits for the lock"
    assert threads == [WRITER]


async def test_a_slow_disk_is_left_to_the_writer_thread_for_a_while(
    engine: SqliteEngine, threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_commits, "ON_THREAD_S", 3600.0)
    monkeypatch.setattr(loop_commits, "SLOW_S", 0.0)  # No disk is faster.
    store = SqlStore(engine)
    for _ in range(3):
        await store.submit(Submission(type="t"))
    assert threads == [LOOP, WRITER, WRITER], "one that was slow, and no second one"


async def test_the_loop_has_its_commits_back_once_the_disk_is_fast_again(
    engine: SqliteEngine, threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_commits, "ON_THREAD_S", 0.0)
    monkeypatch.setattr(loop_commits, "SLOW_S", 0.0)
    store = SqlStore(engine)
    await store.submit(Submission(type="t"))
    await store.submit(Submission(type="t"))
    assert threads == [LOOP, LOOP]


async def test_a_checkpoint_is_the_writer_threads(
    engine: SqliteEngine, threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.engine.SMALL_CHECKPOINT_PAGES", 20)
    store = SqlStore(engine)
    for _ in range(20):
        await store.submit(Submission(type="t"))
    assert LOOP in threads
    assert WRITER in threads, "when so many pages wait for a checkpoint"
    assert threads.index(WRITER) > 1


async def test_a_wal_of_small_commits_starts_over_soon(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.engine.SMALL_CHECKPOINT_PAGES", 40)
    store = SqlStore(engine)
    for _ in range(100):
        await store.submit(Submission(type="t"))
    wal = await asyncio.to_thread(os.path.getsize, f"{engine.path}-wal")
    # A hundred submits write some 500 pages.
    assert wal < 150 * PAGE_BYTES


async def test_a_submit_that_is_cut_off_is_committed_or_not_but_never_half(engine: SqliteEngine) -> None:
    store = SqlStore(engine)
    for turns in range(4):
        submit = asyncio.create_task(store.submit(Submission(type="t")))
        for _ in range(turns):
            await asyncio.sleep(0)
        submit.cancel()
        await asyncio.gather(submit, return_exceptions=True)
        await store.submit(Submission(type="after"))
    assert await paused(engine) == set(), "nobody is left inside a transaction"


class Interrupted(BaseException):
    """As Ctrl-C, which asyncio lets end the loop."""


async def test_an_interruption_in_the_middle_leaves_no_transaction_open(engine: SqliteEngine) -> None:
    def interrupted() -> Program[str]:
        yield one("pause", kind="queue", name="never")
        raise Interrupted

    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: raised.append(context["exception"]))
    with pytest.raises(Interrupted):
        await engine.write(interrupted, is_small=True)
    assert [type(error) for error in raised] == [Interrupted], "whoever runs the loop hears of it, too"
    assert await engine.write(lambda: pausing("after")) == "after"
    assert await paused(engine) == {"after"}


async def test_what_waits_when_the_store_is_closed_is_still_written(tmp_path: Path) -> None:
    engine = SqliteEngine(str(tmp_path / "jobs.db"))
    await engine.migrate()
    await engine.open()
    write = asyncio.create_task(engine.write(lambda: pausing("last"), is_small=True))
    await asyncio.sleep(0)
    await engine.close()
    assert await write == "last"
