"""Facts of a Postgres server, as far as its user may see."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import PostgresFacts, TableFact
from euterpe.model.errors import EuterpeError
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.statements import table_names

PREPARED_LATE_S: Final = 300.0


async def postgres_facts(engine: Engine) -> PostgresFacts | None:
    """None for any other database."""
    if not isinstance(engine, PostgresEngine):
        return None
    through_pooler = engine.session.through_pooler
    try:
        wal = await engine.read(_wal)
    except EuterpeError:
        wal = None  # Most users may not look.
    return await engine.read(lambda: _postgres(engine.schema, wal, through_pooler=through_pooler))


def _wal() -> Program[int | None]:
    ((size,),) = yield one("diagnosis/wal")
    return None if size is None else int(size)


def _postgres(schema: str | None, wal: int | None, *, through_pooler: bool) -> Program[PostgresFacts]:
    ((version, standby, autovacuum, fsync, whole_pages, most, used, xid_age, prepared, max_wal),) = yield one(
        "diagnosis/server", late_s=PREPARED_LATE_S
    )
    tables = yield one("diagnosis/tables", schema=schema, names=list(table_names()))
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
            row[0] for row in (yield one("diagnosis/invalid_indexes", schema=schema, names=list(table_names())))
        ),
        connections=used,
        max_connections=most,
        oldest_xid_age=xid_age,
        wal_bytes=wal,
        max_wal_bytes=max_wal,
    )
