"""Facts of the database itself: which migrations it has, its clock, and a SQLite file from inside."""

from __future__ import annotations

import re

from euterpe.model.diagnosis.facts import DatabaseFacts, SqliteFacts
from euterpe.model.errors import SchemaMismatch
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.migrations import MadeBeforeBaseline, missing
from euterpe.stores.sql.program import Program, one


async def database_facts(engine: Engine, here_us: int, asked_at_us: int) -> DatabaseFacts:
    """`here_us` is this machine's time when `asked_at_us` was the database's."""
    skew = asked_at_us - here_us
    applied = await engine.read(_applied)
    try:
        lacking = missing(engine.family, applied)
    except MadeBeforeBaseline as older:
        return DatabaseFacts(too_old=older.what, make_anew=older.remedy, clock_skew_us=skew)
    except SchemaMismatch as newer:
        return DatabaseFacts(too_new=str(newer), clock_skew_us=skew)
    names = tuple(f"{m.version:04} {m.name}" for m in lacking)
    return DatabaseFacts(missing_migrations=names, clock_skew_us=skew)


def _applied() -> Program[dict[int, str]]:
    return {row[0]: row[1] for row in (yield one("diagnosis/applied"))}


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
