"""Facts of the database itself: a Postgres server as far as its user may see, or a SQLite file from inside."""

from __future__ import annotations

import re
from typing import Final

from euterpe.model.diagnosis.facts import DatabaseFacts, PostgresFacts, SqliteFacts, TableFact
from euterpe.model.errors import EuterpeError, SchemaMismatch
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.migrations import missing
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.statements import TABLES

PREPARED_LATE_S: Final = 300.0


async def database_facts(engine: Engine, here_us: int, asked_at_us: int) -> DatabaseFacts:
    """`here_us` is this machine's time when `asked_at_us` was the database's."""
    skew = asked_at_us - here_us
    applied = await engine.read(_applied)
    try:
        lacking = missing(engine.family, applied)
    except SchemaMismatch as newer:
        return DatabaseFacts(too_new=str(newer), clock_skew_us=skew)
    names = tuple(f"{m.version:04} {m.name}" for m in lacking)
    return DatabaseFacts(missing_migrations=names, clock_skew_us=skew)


def _applied() -> Program[set[int]]:
    return {row[0] for row in (yield one("diagnosis/applied"))}


async def postgres_facts(engine: PostgresEngine) -> PostgresFacts:
    try:
        wal = await engine.read(_wal)
    except EuterpeError:
        wal = None  # Most users may not look.
    return await engine.read(lambda: _postgres(engine.schema, wal, through_pooler=engine.session.through_pooler))


def _wal() -> Program[int | None]:
    ((size,),) = yield one("diagnosis/wal")
    return None if size is None else int(size)


def _postgres(schema: str | None, wal: int | None, *, through_pooler: bool) -> Program[PostgresFacts]:
    ((version, standby, autovacuum, fsync, whole_pages, most, used, xid_age, prepared, max_wal),) = yield one(
        "diagnosis/server", late_s=PREPARED_LATE_S
    )
    tables = yield one("diagnosis/tables", schema=schema, names=list(TABLES))
    longest = yield one("diagnosis/longest_transaction")
    return PostgresFacts(
        version=version,
        through_pooler=through_pooler,
        standby=standby,
        autovacuum=autovacuum,
        fsync=fsync,
        full_page_writes=whole_pages,
        role_defaults=tuple(row[0] for row in (yield one("diagnosis/defaults"))),
        tables=tuple(TableFact(row[0], row[1], row[2], row[3]) for row in tables),
        longest_transaction_us=longest[0][0] if longest else 0,
        longest_transaction=longest[0][1] if longest else "",
        prepared_transactions=prepared,
        idle_slots=tuple(row[0] for row in (yield one("diagnosis/slots"))),
        refused_tables=tuple(row[0] for row in tables if not row[4]),
        invalid_indexes=tuple(
            row[0] for row in (yield one("diagnosis/invalid_indexes", schema=schema, names=list(TABLES)))
        ),
        connections=used,
        max_connections=most,
        oldest_xid_age=xid_age,
        wal_bytes=wal,
        max_wal_bytes=max_wal,
    )


async def sqlite_facts(engine: Engine) -> SqliteFacts:
    return await engine.read(_sqlite)


def _sqlite() -> Program[SqliteFacts]:
    ((version, journal_mode, pages, free_pages, page_bytes),) = yield one("diagnosis/file")
    return SqliteFacts(
        version=tuple(int(part) for part in re.findall(r"\d+", version)[:3]),
        journal_mode=journal_mode,
        pages=pages,
        free_pages=free_pages,
        page_bytes=page_bytes,
    )
