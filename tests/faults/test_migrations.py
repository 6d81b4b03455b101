"""Migrations start from many processes at once: one of them does the work, all of them find it done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import euterpe
from euterpe.model.errors import SchemaMismatch
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.migrations import migrations
from tests.faults import actors, breakers
from tests.faults.crew import Crew, together
from tests.faults.recorder import rows, run, schema_of
from tests.faults.stores import SQLITE, engine_of, opened


async def test_eight_processes_migrate_an_empty_database_at_once(empty_database: str, crew: Crew) -> None:
    applied = await together(crew.start_many(8, actors.migrator, empty_database))
    known = [migration.name for migration in migrations(engine_of(empty_database).family)]
    assert sorted(applied) == [[]] * 7 + [known], "each migration was applied by one process, once"
    assert len(rows(empty_database, "SELECT version FROM euterpe_migrations")) == len(known)
    async with opened(empty_database) as store:
        assert (await store.submit(Submission(type="t"))).state == "scheduled"


async def test_eight_processes_migrate_into_a_schema_that_nobody_has_made_yet(
    bare_postgres_url: str, crew: Crew
) -> None:
    schema = f"{schema_of(bare_postgres_url)}_new"
    url = bare_postgres_url.replace(schema.removesuffix("_new"), schema)
    try:
        applied = await together(crew.start_many(8, actors.migrator, url))
        assert len([names for names in applied if names]) == 1
    finally:
        run(bare_postgres_url, f"DROP SCHEMA IF EXISTS {schema} CASCADE")


async def test_a_database_of_a_newer_release_is_refused_and_left_alone(database: str) -> None:
    run(database, "INSERT INTO euterpe_migrations (version, name, applied_at) VALUES (9999, 'tomorrow', 0)")
    with pytest.raises(SchemaMismatch, match="9999"):
        await engine_of(database).migrate()
    assert (9999,) in rows(database, "SELECT version FROM euterpe_migrations")


LEDGER = (
    "CREATE TABLE euterpe_migrations (version integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL);"
)
MADE_BEFORE = {
    "by_old_migrations": f"{LEDGER} CREATE TABLE inbox_jobs (id text);"
    "INSERT INTO euterpe_migrations VALUES (1, 'jobs', 0), (42, 'sessions_by_key', 0)",
    "whose_ledger_had_another_name": "CREATE TABLE schema_migrations (v integer); CREATE TABLE inbox_jobs (id text)",
    "without_the_first_row": f"{LEDGER} INSERT INTO euterpe_migrations VALUES (42, 'sessions_by_key', 0)",
    "with_an_empty_ledger": f"{LEDGER} CREATE TABLE inbox_jobs (id text)",
}


@pytest.mark.parametrize("made", MADE_BEFORE)
async def test_a_database_from_before_the_baseline_is_refused_and_left_alone(empty_database: str, made: str) -> None:
    run(empty_database, MADE_BEFORE[made])
    tables = _tables(empty_database)
    for attempt in (engine_of(empty_database).migrate, euterpe.Queue(empty_database).open):
        with pytest.raises(SchemaMismatch, match="before its first release") as refused:
            await attempt()
        assert "make it anew: stop every process of the queue" in str(refused.value), "it says what to do"
    assert _tables(empty_database) == tables


async def test_the_statement_of_the_documentation_drops_our_tables_alone(fresh_postgres_url: str) -> None:
    schema = schema_of(fresh_postgres_url)
    page = (Path(__file__).parents[2] / "docs" / "upgrading.md").read_text()
    (statement,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    run(fresh_postgres_url, "CREATE TABLE users (id int); CREATE TABLE euterpean (id int)")
    run(fresh_postgres_url, statement.replace("public", schema))
    assert _tables(fresh_postgres_url) == [("euterpean",), ("users",)]
    assert await engine_of(fresh_postgres_url).migrate() == ["baseline"]


def _tables(url: str) -> list[tuple[str]]:
    if url.startswith(SQLITE):
        return rows(url, "SELECT name FROM sqlite_master ORDER BY name")
    return rows(url, f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema_of(url)}' ORDER BY tablename")


async def test_a_migration_that_is_killed_half_way_leaves_nothing_behind(
    bare_sqlite_url: str, crew: Crew, tmp_path: Path
) -> None:
    started = crew.start(breakers.half_a_migration, bare_sqlite_url)
    await started.report()
    started.kill()
    assert rows(bare_sqlite_url, "SELECT name FROM sqlite_master") == []
    assert await engine_of(bare_sqlite_url).migrate()


async def test_a_database_that_nobody_migrated_is_told_and_not_taken_for_an_outage(empty_database: str) -> None:
    async with opened(empty_database) as store:
        with pytest.raises(SchemaMismatch, match="euterpe migrate"):
            await store.submit(Submission(type="t"))
        with pytest.raises(SchemaMismatch, match="euterpe migrate"):
            await store.stats()
