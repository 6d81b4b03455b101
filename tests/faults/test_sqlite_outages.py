"""A full disk, a file that cannot be opened, a lock that is never given back: a typed error that says what to do,
nothing half-written, and everything as before once the cause is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.errors import StoreUnavailable
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore
from tests.faults import actors, breakers
from tests.faults.crew import Crew
from tests.faults.history import check
from tests.faults.recorder import rows
from tests.faults.stores import SQLITE, engine_of, opened


@pytest.mark.parametrize("limit", ["pages", "file_size"])
async def test_a_full_disk_refuses_whole_writes_and_works_again_when_there_is_space(
    sqlite_database: str, crew: Crew, limit: str
) -> None:
    """`pages` is SQLite's own "full" in the middle of a transaction, `file_size` a write that the system refuses."""
    actor = crew.start(breakers.fills_the_disk, sqlite_database, limit)
    refused, refused_batch, refused_settle, accepted_after = await actor.report()
    print(f"{limit}: {refused}")
    assert refused.startswith("StoreUnavailable: SQLite at ")
    assert ("disk is full" in refused) if limit == "pages" else ("disk failed" in refused)
    assert refused_batch.startswith("StoreUnavailable")
    assert refused_settle.startswith("StoreUnavailable")
    assert accepted_after == ["scheduled", True]
    assert rows(sqlite_database, "SELECT count(*) FROM inbox_jobs WHERE type = 'batch'") == [(0,)], "half a batch"
    assert rows(sqlite_database, "PRAGMA integrity_check") == [("ok",)]
    check(sqlite_database, crew)


async def test_what_was_acknowledged_before_the_disk_was_full_survives_a_kill(sqlite_database: str, crew: Crew) -> None:
    actor = crew.start(breakers.fills_the_disk, sqlite_database, "file_size")
    await actor.report()
    actor.kill()
    assert len(crew.notes("submitted")) > 10
    check(sqlite_database, crew)


@pytest.mark.parametrize("case", ["no_folder", "not_a_database", "a_folder"])
async def test_a_file_that_cannot_be_used_is_told_at_every_door(tmp_path: Path, case: str) -> None:
    path = tmp_path / "jobs.db"
    if case == "no_folder":
        path = tmp_path / "nowhere" / "jobs.db"
    elif case == "not_a_database":
        path.write_bytes(b"this is a letter to my aunt, and no database at all\n" * 100)
    else:
        path.mkdir()
    engine = engine_of(f"{SQLITE}{path}")
    with pytest.raises(StoreUnavailable, match=r"jobs\.db"):
        await engine.migrate()
    with pytest.raises(StoreUnavailable, match=r"jobs\.db"):
        await SqlStore(engine).open()


async def test_a_writer_that_is_frozen_with_the_lock_is_told_as_such_and_waited_for(
    sqlite_database: str, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.sqlite.engine.LOCK_PATIENCE_S", 0.3)
    async with opened(sqlite_database) as store:
        submitted = await store.submit(Submission(type="t"))
        frozen = crew.start(breakers.holds_the_write_lock, sqlite_database)
        assert await frozen.report() == "holding"
        with pytest.raises(StoreUnavailable, match="held the write lock"):
            await store.claim(ClaimRequest(worker_id="w", limit=1))
        assert (await store.get(submitted.job_id)).state == "scheduled", "readers never wait for the writer"
        frozen.kill()
        assert len(await store.claim(ClaimRequest(worker_id="w", limit=1))) == 1
    check(sqlite_database, crew)


async def test_a_process_that_is_killed_inside_a_write_leaves_nothing_of_it(sqlite_database: str, crew: Crew) -> None:
    victim = crew.start(breakers.holds_the_write_lock, sqlite_database)
    assert await victim.report() == "holding"
    victim.kill()
    async with opened(sqlite_database) as store:
        assert (await store.submit(Submission(type="t"))).state == "scheduled"
    assert rows(sqlite_database, "SELECT type FROM inbox_jobs") == [("t",)]
    check(sqlite_database, crew)


async def test_processes_go_on_with_a_log_that_killed_writers_left(sqlite_database: str, crew: Crew) -> None:
    writers = crew.start_many(4, actors.writer, sqlite_database, 0.5)
    for writer in writers:
        await writer.report()
        writer.order()
    victims = writers[:2]
    for victim in victims:
        victim.kill()
    for writer in writers[2:]:
        assert len(await writer.report()) > 0
    check(sqlite_database, crew)
