"""SQLite's writer: what comes while a short transaction runs takes part in its commit, and keeps its own fate."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.program import MakeProgram, Program, one
from euterpe.stores.sql.sqlite.engine import ApswSession, SqliteEngine
from tests.patience import reached


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(str(tmp_path / "jobs.db"))
    await engine.migrate()
    await engine.open()
    yield engine
    await engine.close()


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    run = ApswSession.run

    def spy(self: ApswSession, sql: str) -> list[object]:
        if sql == "COMMIT":
            seen.append(sql)
        return run(self, sql)

    monkeypatch.setattr(ApswSession, "run", spy)
    return seen


def pausing(name: str) -> Program[str]:
    yield one("pause", kind="queue", name=name)
    return name


class StandsStill:
    """Pauses a queue, and stands still inside the transaction until it may go on."""

    def __init__(self) -> None:
        self.inside, self.may_go_on = threading.Event(), threading.Event()

    def program(self) -> Program[str]:
        yield one("pause", kind="queue", name="first")
        self.inside.set()
        reached(self.may_go_on, "it may go on")
        return "first"

    def rejected(self) -> Program[str]:
        yield from self.program()
        raise InvalidInput("name", "is refused after it was written")


def refused() -> Program[str]:
    yield one("pause", kind="queue", name="never")
    raise InvalidInput("name", "is refused after it was written")


async def paused(engine: SqliteEngine) -> set[str]:
    def program() -> Program[set[str]]:
        rows = yield one("paused")
        return {row[1] for row in rows}

    return await engine.read(program)


async def two_at_once(engine: SqliteEngine, second: MakeProgram[str]) -> list[str | BaseException]:
    standing = StandsStill()
    first = asyncio.create_task(engine.write(standing.program))
    await asyncio.to_thread(reached, standing.inside, "the transaction begins")
    later = asyncio.create_task(engine.write(second))
    await asyncio.sleep(0)
    standing.may_go_on.set()
    return list(await asyncio.gather(first, later, return_exceptions=True))


async def test_it_joins_a_short_one(engine: SqliteEngine, commits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.JOIN_S", 60.0)
    assert await two_at_once(engine, lambda: pausing("second")) == ["first", "second"]
    assert commits == ["COMMIT"]
    assert await paused(engine) == {"first", "second"}


async def test_it_does_not_join_a_long_one(
    engine: SqliteEngine, commits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.JOIN_S", 0.0)
    await two_at_once(engine, lambda: pausing("second"))
    assert commits == ["COMMIT", "COMMIT"]


@pytest.mark.parametrize(("long_s", "together"), [(60.0, 1), (0.0, 2)])
async def test_two_that_wait_share_a_commit_unless_the_first_is_long(
    engine: SqliteEngine, commits: list[str], monkeypatch: pytest.MonkeyPatch, long_s: float, together: int
) -> None:
    """The lanes of a worker take turns: the jobs of one run while the other's are written."""
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.JOIN_S", 0.0)
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.LONG_S", long_s)
    standing = StandsStill()
    first = asyncio.create_task(engine.write(standing.program))
    await asyncio.to_thread(reached, standing.inside, "the transaction begins")
    others = [asyncio.create_task(engine.write(lambda name=name: pausing(name))) for name in ("second", "third")]  # type: ignore[misc]
    await asyncio.sleep(0)
    standing.may_go_on.set()
    assert await asyncio.gather(first, *others) == ["first", "second", "third"]
    assert len(commits) == 1 + together
    assert await paused(engine) == {"first", "second", "third"}


async def test_who_is_left_for_the_next_commit_is_answered_before_the_end(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.JOIN_S", 0.0)
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.LONG_S", 0.0)
    standing = StandsStill()
    first = asyncio.create_task(engine.write(standing.program))
    await asyncio.to_thread(reached, standing.inside, "the transaction begins")
    others = [asyncio.create_task(engine.write(lambda name=name: pausing(name))) for name in ("second", "third")]  # type: ignore[misc]
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    standing.may_go_on.set()
    async with asyncio.timeout(10):
        assert await asyncio.gather(first, *others) == ["first", "second", "third"]
        await closing


async def test_what_joined_and_is_refused_takes_nothing_along(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.JOIN_S", 60.0)
    first, second = await two_at_once(engine, refused)
    assert first == "first"
    assert isinstance(second, InvalidInput)
    assert await paused(engine) == {"first"}


class Intruded:
    """A program that reads and then writes, and somebody else who would write in between. A transaction that begins as
    a reader can only fail when others write."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._path = engine.path
        self.seen: list[str] = []

    def reads_then_writes(self) -> Program[str]:
        yield one("paused")
        other = apsw.Connection(self._path)
        try:
            other.execute("BEGIN IMMEDIATE")
            self.seen.append("wrote in between")
        except apsw.BusyError:
            self.seen.append("kept out")
        finally:
            other.close()
        return (yield from pausing("second"))


async def test_whoever_reads_first_is_a_writer_from_its_begin(engine: SqliteEngine) -> None:
    intruded = Intruded(engine)
    assert await engine.write(intruded.reads_then_writes) == "second"
    assert intruded.seen == ["kept out"]


async def test_who_comes_while_a_lone_one_is_rejected_is_a_writer_from_its_begin(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.writer.JOIN_S", 60.0)
    standing, intruded = StandsStill(), Intruded(engine)
    first = asyncio.create_task(engine.write(standing.rejected))
    await asyncio.to_thread(reached, standing.inside, "the transaction begins")
    second = asyncio.create_task(engine.write(intruded.reads_then_writes))
    await asyncio.sleep(0)
    standing.may_go_on.set()
    with pytest.raises(InvalidInput):
        await first
    assert await second == "second"
    assert intruded.seen == ["kept out"]
    assert await paused(engine) == {"second"}
