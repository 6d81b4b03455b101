"""The queue lives in the application's database: none of its tables takes a name that the application may want."""

from __future__ import annotations

from importlib.resources import files

import pytest

from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.migrations import PREFIXED, migrations
from euterpe.stores.sql.statements import TABLES
from tests.conformance.acts import take
from tests.faults import actors
from tests.faults.crew import Crew, together
from tests.faults.recorder import rows, run, schema_of
from tests.faults.stores import SQLITE, engine_of, opened

OF_THE_CONTRACT = {"inbox_jobs", "job_attempts", "job_dependencies", "job_outbox_events", "idempotency_keys"}
OLD_LEDGER = (
    "CREATE TABLE IF NOT EXISTS schema_migrations (\n    version    integer NOT NULL PRIMARY KEY,\n"
    "    name       text    NOT NULL,\n    applied_at bigint  NOT NULL\n);"
)
LEDGERS_OF_OTHERS = {
    "rails": "CREATE TABLE schema_migrations (version varchar NOT NULL PRIMARY KEY);"
    "INSERT INTO schema_migrations VALUES ('20260101000000')",
    "golang_migrate": "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL);"
    "INSERT INTO schema_migrations VALUES (1, false)",
    "ecto": "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, inserted_at text);"
    "INSERT INTO schema_migrations VALUES (1, 'today')",
    "our_columns": f"{OLD_LEDGER} INSERT INTO schema_migrations VALUES (1, 'create_users', 0), (7, 'add_email', 0)",
}


def make_first_release(url: str) -> None:
    """A database as the first release left it, with a row in most tables."""
    family = engine_of(url).family
    first = files("euterpe.stores.sql").joinpath("schema", family, "0001_jobs.sql").read_text()
    run(url, f"{OLD_LEDGER} INSERT INTO schema_migrations VALUES (1, 'jobs', 0); {first}")
    run(
        url,
        "INSERT INTO pauses VALUES ('queue', 'night', 5); INSERT INTO requesters VALUES ('vesta', 5);"
        "INSERT INTO ended_attempts (job_id, claim_version, attempt, started_at, ended_at, outcome, state) VALUES"
        " ('00000000-0000-4000-8000-000000000001', 1, 1, 5, 6, 'failed', 'retrying');"
        "INSERT INTO job_tombstones VALUES ('00000000-0000-4000-8000-000000000002', 'vesta', 'completed', 5)",
    )


def catalogue(url: str) -> set[tuple[str, ...]]:
    """Tables, columns, indexes and views, without the schema's name."""
    if url.startswith(SQLITE):
        found = rows(url, "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'")
        return {(*map(str, row[:3]), " ".join(str(row[3]).replace('"', "").split())) for row in found}
    schema = schema_of(url)
    found = rows(
        url,
        "SELECT table_name, column_name, data_type, ordinal_position FROM information_schema.columns"
        f" WHERE table_schema = '{schema}' UNION ALL SELECT tablename, indexname, indexdef, 0 FROM pg_indexes"
        f" WHERE schemaname = '{schema}' UNION ALL SELECT 'view', viewname, definition, 0 FROM pg_views"
        f" WHERE schemaname = '{schema}'",
    )
    return {tuple(str(value).replace(f"{schema}.", "") for value in row) for row in found}


async def works(url: str) -> None:
    async with opened(url) as store:
        await store.pause("type", "t")
        await store.submit(Submission(type="t"))
        assert await take(store) == []
        await store.resume("type", "t")
        assert len(await take(store)) == 1


def test_every_table_that_the_contract_does_not_name_has_our_prefix() -> None:
    assert {name for name in TABLES if not name.startswith("euterpe_")} == OF_THE_CONTRACT


async def test_a_new_queue_lives_beside_tables_of_the_application_with_the_same_plain_names(
    empty_database: str,
) -> None:
    for name in PREFIXED:
        run(empty_database, f"CREATE TABLE {name} (mine text); INSERT INTO {name} VALUES ('{name}')")
    await engine_of(empty_database).migrate()
    await works(empty_database)
    for name in PREFIXED:
        assert rows(empty_database, f"SELECT * FROM {name}") == [(name,)], "the application's table was touched"


@pytest.mark.parametrize("whose", LEDGERS_OF_OTHERS)
async def test_a_ledger_of_migrations_that_is_the_applications_is_neither_read_nor_renamed(
    empty_database: str, whose: str
) -> None:
    run(empty_database, LEDGERS_OF_OTHERS[whose])
    before = rows(empty_database, "SELECT * FROM schema_migrations")
    assert await engine_of(empty_database).migrate() == [m.name for m in migrations(engine_of(empty_database).family)]
    assert rows(empty_database, "SELECT * FROM schema_migrations") == before
    assert await engine_of(empty_database).migrate() == []
    await works(empty_database)


async def test_a_database_of_the_first_release_becomes_the_same_as_a_new_one_and_keeps_its_rows(
    empty_database: str, crew: Crew
) -> None:
    make_first_release(empty_database)
    applied = await together(crew.start_many(8, actors.migrator, empty_database))
    later = [m.name for m in migrations(engine_of(empty_database).family)[1:]]
    assert sorted(applied) == [[]] * 7 + [later], "one process renamed, the others found it done"
    await works(empty_database)
    renamed = catalogue(empty_database)
    assert rows(empty_database, "SELECT name FROM euterpe_pauses") == [("night",)]
    assert rows(empty_database, "SELECT id FROM euterpe_requesters WHERE id = 'vesta'") == [("vesta",)]
    assert len(rows(empty_database, "SELECT * FROM job_attempts")) == 1
    assert len(rows(empty_database, "SELECT * FROM euterpe_tombstones")) == 1

    clear(empty_database)
    await engine_of(empty_database).migrate()
    assert catalogue(empty_database) == renamed


async def test_a_broken_view_of_the_application_does_not_stop_the_renaming(bare_sqlite_url: str) -> None:
    make_first_release(bare_sqlite_url)
    run(bare_sqlite_url, "CREATE VIEW stale AS SELECT * FROM dropped_long_ago")
    await engine_of(bare_sqlite_url).migrate()
    await works(bare_sqlite_url)


async def test_a_user_without_the_right_to_create_works_on_a_renamed_database(bare_postgres_url: str) -> None:
    schema, role = schema_of(bare_postgres_url), f"limited_{schema_of(bare_postgres_url)}"
    make_first_release(bare_postgres_url)
    run(
        bare_postgres_url,
        f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    try:
        await engine_of(bare_postgres_url).migrate()
        assert await engine_of(f"{bare_postgres_url}&role={role}").migrate() == []
        await works(f"{bare_postgres_url}&role={role}")
    finally:
        run(bare_postgres_url, f"DROP OWNED BY {role}; DROP ROLE {role}")


def clear(url: str) -> None:
    if url.startswith(SQLITE):
        for kind, name in rows(url, "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'table')"):
            if not name.startswith("sqlite_"):
                run(url, f"DROP {kind} {name}")
        return
    run(url, f"DROP SCHEMA {schema_of(url)} CASCADE; CREATE SCHEMA {schema_of(url)}")
