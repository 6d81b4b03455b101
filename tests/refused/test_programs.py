"""At each statement of each program four kinds of error, other ones at the next, and all of them at the first statement
of what everything hangs on: the caller gets our own error by the table, nothing is half done, and the same call
succeeds when the database takes statements again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.model.errors import EuterpeError
from euterpe.stores.sql.program import Row
from euterpe.stores.sql.sqlite.writer import GroupCommitEngine
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.submitting import unit_commits
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables, Tables
from tests.refused.acts import ACTS, GOES_AROUND_LOCKS, SEVERAL, Scene
from tests.refused.refusing import Refusals, expected, fits

MOST_STATEMENTS = 40
AT_A_TIME = 4
"""So many kinds of error at each statement, the next ones at the next: all of them everywhere would take minutes."""
ALL_CODES = {"submits_one", "submits_with_a_key", "claims", "settles_and_claims", "completes", "settles_an_event"}
"""What everything hangs on: all kinds of error at the first statement."""
LEDGER = "euterpe_migrations"


@pytest.mark.parametrize("name", ACTS)
async def test_a_refused_statement_leaves_nothing_half_done_and_is_told_as_what_it_is(
    store: SqlStore,
    tables: Tables,
    clock: FrozenClock,
    refusals: Refusals,
    engine_name: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unit_commits, "SHORTEST_OUTAGE_WAIT_S", 0.0)
    monkeypatch.setattr(unit_commits, "OUTAGE_WAIT_S", 0.0)
    prepare, do = ACTS[name]
    look = Look(store, tables)
    codes = list(expected(engine_name))
    begin = list(ACTS).index(name) * AT_A_TIME  # another one in each act
    refused = 0
    for at in range(MOST_STATEMENTS):
        chosen = [codes[(begin + at * AT_A_TIME + i) % len(codes)] for i in range(AT_A_TIME)]
        for code in codes if at == 0 and name in ALL_CODES else chosen:
            await look.empty()
            prepared = await prepare(Scene(store, clock))
            before = await look.rows()
            refusals.refuse(code, at)
            error = await _error_of(do(store, prepared))
            refusals.stop()
            if not refusals.fired:
                assert error is None
                print(f"{name} on {engine_name}: {at} statements, {refused} refusals")
                assert at > 0
                return
            refused += 1
            where = f"{name}, statement {at}, {code}"
            went_around = error is None and code == "55P03" and name in GOES_AROUND_LOCKS
            assert went_around or fits(error, expected(engine_name)[code], code), f"{where}: {error!r}"
            if error is not None:
                assert name in SEVERAL or await look.rows() == before, f"{where}: something was written"
                await do(store, prepared)
    raise AssertionError("it never ends")


async def _error_of(call: Any) -> BaseException | None:
    try:
        await call
    except EuterpeError as error:
        return error
    return None


class Look:
    """At all rows of all tables, past the refusals."""

    def __init__(self, store: SqlStore, tables: Tables) -> None:
        self._engine = store.engine
        self._tables = tables
        self._names: list[str] = []

    async def rows(self) -> list[str]:
        names = await self._of_tables()
        if isinstance(self._engine, GroupCommitEngine):
            return sorted(map(repr, await asyncio.to_thread(self._in_thread, self._engine, "SELECT * FROM {}", names)))
        found = await self._tables.run(" UNION ALL ".join(f"SELECT '{name}', t::text FROM {name} t" for name in names))
        return sorted(map(repr, found))

    async def empty(self) -> None:
        names = await self._of_tables()
        if isinstance(self._engine, GroupCommitEngine):
            await asyncio.to_thread(self._in_thread, self._engine, "DELETE FROM {}", names)
        elif isinstance(self._tables, PostgresTables):
            await self._tables.empty()

    async def _of_tables(self) -> list[str]:
        self._names = self._names or [name for name in await self._tables.names() if name != LEDGER]
        return self._names

    def _in_thread(self, engine: GroupCommitEngine, sql: str, names: list[str]) -> list[Row]:
        session = engine.library.connect(engine.path)
        try:
            session.begin(30.0)
            found = [(name, *row) for name in names for row in session.run(sql.format(name))]
            session.run("COMMIT")
        finally:
            session.close()
        return found
