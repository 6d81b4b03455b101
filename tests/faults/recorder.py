"""Triggers that write down every move of every job, in the transaction that makes it.

The rows of a job tell where it is; they cannot tell whether it ended twice on the way. The recorder can: its
order is the order of cause and effect, since whoever depends on a move waits for its row lock.
"""

from __future__ import annotations

from typing import Any, Final

import apsw
import psycopg

from euterpe.stores.sql.postgres.engine import split_url
from tests.faults.stores import SQLITE, sqlite_path

_CHANGED: Final = """
    OLD.state <> NEW.state OR OLD.claim_version <> NEW.claim_version OR OLD.transitions <> NEW.transitions
"""
_COLUMNS: Final = "job_id, source, target, from_version, version, attempt_count, transitions"

_SQLITE: Final = f"""
CREATE TABLE recorded_moves (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT, source TEXT, target TEXT, from_version INTEGER,
    version INTEGER, attempt_count INTEGER, transitions INTEGER);
CREATE TRIGGER record_insert AFTER INSERT ON inbox_jobs BEGIN
    INSERT INTO recorded_moves ({_COLUMNS})
    VALUES (NEW.id, NULL, NEW.state, 0, NEW.claim_version, NEW.attempt_count, NEW.transitions);
END;
CREATE TRIGGER record_update AFTER UPDATE ON inbox_jobs WHEN {_CHANGED} BEGIN
    INSERT INTO recorded_moves ({_COLUMNS})
    VALUES (NEW.id, OLD.state, NEW.state, OLD.claim_version, NEW.claim_version, NEW.attempt_count,
            NEW.transitions);
END;
"""

# The functions name the schema of their trigger as they run: spare schemas are renamed (`tests/migrated.py`).
_POSTGRES: Final = f"""
CREATE TABLE SCHEMA.recorded_moves (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_id uuid, source text, target text,
    from_version bigint, version bigint, attempt_count integer, transitions bigint,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id());
CREATE FUNCTION SCHEMA.record_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE format('INSERT INTO %I.recorded_moves ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)', TG_TABLE_SCHEMA)
    USING NEW.id, NULL::text, NEW.state, 0, NEW.claim_version, NEW.attempt_count, NEW.transitions;
    RETURN NULL;
END $$;
CREATE FUNCTION SCHEMA.record_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE format('INSERT INTO %I.recorded_moves ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)', TG_TABLE_SCHEMA)
    USING NEW.id, OLD.state, NEW.state, OLD.claim_version, NEW.claim_version, NEW.attempt_count, NEW.transitions;
    RETURN NULL;
END $$;
CREATE TRIGGER record_insert AFTER INSERT ON SCHEMA.inbox_jobs
    FOR EACH ROW EXECUTE FUNCTION SCHEMA.record_insert();
CREATE TRIGGER record_update AFTER UPDATE ON SCHEMA.inbox_jobs
    FOR EACH ROW WHEN ({_CHANGED}) EXECUTE FUNCTION SCHEMA.record_update();
"""


async def record(url: str) -> None:
    """Install the recorder into a migrated database."""
    if url.startswith(SQLITE):
        run(url, _SQLITE)
    else:
        run(url, _POSTGRES.replace("SCHEMA.", f"{schema_of(url)}."))


def schema_of(url: str) -> str:
    return split_url(url)[1].get("schema", "public")


def run(url: str, script: str) -> None:
    """A script of a test's own, outside the store."""
    if url.startswith(SQLITE):
        connection = apsw.Connection(sqlite_path(url))
        try:
            connection.set_busy_timeout(10_000)
            connection.execute(script)
        finally:
            connection.close()
        return
    with psycopg.connect(split_url(url)[0], autocommit=True) as postgres:
        postgres.execute(f"SET search_path = {schema_of(url)}")
        postgres.execute(script.encode())


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Read with a connection of the test's own, outside the store."""
    if url.startswith(SQLITE):
        connection = apsw.Connection(sqlite_path(url))
        try:
            connection.set_busy_timeout(10_000)
            return [tuple(row) for row in connection.execute(query)]
        finally:
            connection.close()
    with psycopg.connect(split_url(url)[0], autocommit=True) as postgres:
        postgres.execute(f"SET search_path = {schema_of(url)}")
        return [tuple(row) for row in postgres.execute(query.encode()).fetchall()]
