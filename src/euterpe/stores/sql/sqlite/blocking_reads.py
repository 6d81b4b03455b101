"""Reading a SQLite store past the event loop, for assertions of tests that cannot await."""

from __future__ import annotations

from euterpe.model.job import JobRow
from euterpe.model.reading.views import Search
from euterpe.stores.sql.program import run_sync
from euterpe.stores.sql.reads.search import search
from euterpe.stores.sql.sqlite.engine import SqliteEngine, system_clock
from euterpe.stores.sql.store import SqlStore


def all_jobs(store: SqlStore) -> list[JobRow]:
    """Every job, oldest first, on a connection of its own."""
    engine = store.engine
    assert isinstance(engine, SqliteEngine)
    clock = engine.clock or system_clock
    session = engine.library.connect(engine.path)
    try:
        jobs: list[JobRow] = []
        cursor = None
        while True:
            page = run_sync(search(Search(limit=1000, cursor=cursor)), lambda s: session.execute(s, clock))
            jobs += page.jobs
            cursor = page.cursor
            if cursor is None:
                return jobs[::-1]
    finally:
        session.close()
