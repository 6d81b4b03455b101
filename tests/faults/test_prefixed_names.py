"""The queue lives in the application's database: none of its tables takes a name that the application may want."""

from __future__ import annotations

import pytest

from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.migrations import migrations
from euterpe.stores.sql.statements import table_names
from tests.conformance.acts import take
from tests.faults.recorder import rows, run, schema_of
from tests.faults.stores import engine_of, opened

OF_THE_CONTRACT = {"inbox_jobs", "job_attempts", "job_dependencies", "job_outbox_events", "idempotency_keys"}
PLAIN_NAMES = (
    "schema_migrations",
    "api_keys",
    "requesters",
    "webhook_secrets",
    "pauses",
    "job_tombstones",
    "outbox_deliveries",
    "ended_attempts",
    "workers",
    "sessions",
    "operations",
    "crons",
)
LEDGERS_OF_OTHERS = {
    "rails": "CREATE TABLE schema_migrations (version varchar NOT NULL PRIMARY KEY);"
    "INSERT INTO schema_migrations VALUES ('20260101000000')",
    "golang_migrate": "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL);"
    "INSERT INTO schema_migrations VALUES (1, false)",
    "ecto": "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, inserted_at text);"
    "INSERT INTO schema_migrations VALUES (1, 'today')",
    "our_columns": "CREATE TABLE schema_migrations (version integer PRIMARY KEY, name text, applied_at bigint);"
    "INSERT INTO schema_migrations VALUES (1, 'create_users', 0), (7, 'add_email', 0)",
}


async def works(url: str) -> None:
    async with opened(url) as store:
        await store.pause("type", "t")
        await store.submit(Submission(type="t"))
        assert await take(store) == []
        await store.resume("type", "t")
        assert len(await take(store)) == 1


def test_every_table_that_the_contract_does_not_name_has_our_prefix() -> None:
    assert {name for name in table_names() if not name.startswith("euterpe_")} == OF_THE_CONTRACT


async def test_a_new_queue_lives_beside_tables_of_the_application_with_the_same_plain_names(
    empty_database: str,
) -> None:
    for name in PLAIN_NAMES:
        run(empty_database, f"CREATE TABLE {name} (mine text); INSERT INTO {name} VALUES ('{name}')")
    await engine_of(empty_database).migrate()
    await works(empty_database)
    for name in PLAIN_NAMES:
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


async def test_a_user_without_the_right_to_create_works_on_a_migrated_database(bare_postgres_url: str) -> None:
    schema, role = schema_of(bare_postgres_url), f"limited_{schema_of(bare_postgres_url)}"
    await engine_of(bare_postgres_url).migrate()
    run(
        bare_postgres_url,
        f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    try:
        assert await engine_of(f"{bare_postgres_url}&role={role}").migrate() == []
        await works(f"{bare_postgres_url}&role={role}")
    finally:
        run(bare_postgres_url, f"DROP OWNED BY {role}; DROP ROLE {role}")
