"""Every statement declares its contract in its first lines, and keeps it on both engines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import apsw
import apsw.ext
import asyncpg
import pytest

from euterpe.stores.sql import statements
from euterpe.stores.sql.migrations import migrations
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.statements import Family, Text, numbered, text_of
from tests.statements.named import FAMILIES, is_declared, named, parts, texts

Load = Callable[..., Text]
TRUE = "-- takes: id\n-- returns: state\n-- locks: waits\n-- Cancel a job.\n"
SQL = "UPDATE inbox_jobs SET state = 'cancelled' WHERE id = :id RETURNING state"
COLUMN = re.compile(r"^    ([a-z_]+) ", re.MULTILINE)
FUNCTIONS = {"least", "count", "min", "max", "coalesce"}
"""Postgres calls an expression by its outermost function."""
OUR_COLUMNS = {
    name for family in FAMILIES for migration in migrations(family) for name in COLUMN.findall(migration.sql)
}


def statements_of(family: Family) -> list[str]:
    return sorted(name for name in named() if family in texts()[name] and (name not in parts() or is_declared(name)))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a text that is in no file."""

    def load(raw: str, family: Family = "postgres") -> Text:
        monkeypatch.setattr(statements, "_read", lambda *_: raw)
        return text_of.__wrapped__(family, "cancel_it")

    return load


def test_a_contract_is_read(load: Load) -> None:
    contract = load(f"{TRUE.replace('-- Cancel', '-- ends: jobs' + chr(10) + '-- Cancel')}{SQL}").contract
    assert (contract.takes, contract.per, contract.returns) == (("id",), "statement", ("state",))
    assert (contract.is_one_row, contract.locks, contract.ends) == (False, "waits", "jobs")


def test_a_list_goes_on_in_indented_lines(load: Load) -> None:
    declared = "-- takes: id,\n--     state\n-- returns: nothing\n-- locks: waits\n"
    raw = f"{declared}UPDATE inbox_jobs SET state = :state WHERE id = :id"
    assert load(raw).contract.takes == ("id", "state")


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (SQL, "declares no 'takes'"),
        (f"{TRUE.replace('-- locks: waits' + chr(10), '')}{SQL}", "declares no 'locks'"),
        (f"-- Prose first.\n{TRUE}{SQL}", "declares no 'takes'"),
        (f"-- cost: much\n{TRUE}{SQL}", "declares 'cost', which nobody knows"),
        (f"{TRUE.replace('locks: waits', 'locks: some')}{SQL}", "locks: none, skips or waits"),
        (f"{TRUE}{SQL}, :why", "takes what it does not declare: ['why']"),
        (f"{TRUE.replace('takes: id', 'takes: rows of id')}{SQL}", "takes no rows at once"),
        (f"{TRUE.replace('locks: waits', 'locks: none')}{SQL}", "holds rows"),
        (f"{TRUE.replace('locks: waits', 'locks: skips')}{SQL}", "skips no row"),
        (f"{TRUE}SELECT state FROM inbox_jobs WHERE id = :id", "holds rows"),
    ],
)
def test_a_contract_that_is_not_whole_or_not_true_is_refused(load: Load, raw: str, complaint: str) -> None:
    with pytest.raises(LookupError, match=re.escape(complaint)):
        load(raw)


def test_a_batch_on_sqlite_takes_rows(load: Load) -> None:
    batch = TRUE.replace("takes: id", "takes: rows of id")
    assert load(f"{batch}UPDATE t SET a = 1 WHERE id IN {{{{rows id}}}}", "sqlite").batched
    with pytest.raises(LookupError, match="takes no rows at once"):
        load(f"{batch}{SQL}", "sqlite")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_statement_that_the_code_names_has_a_true_contract(family: Family) -> None:
    for name in statements_of(family):
        text_of(family, name)


def test_whatever_a_statement_declares_to_take_an_engine_needs() -> None:
    needless = {}
    for name in named():
        loaded = [text_of(family, name) for family in FAMILIES if name in statements_of(family)]
        needed = {parameter for text in loaded for parameter in (*text.names, *text.row_names)}
        if unused := {taken for text in loaded for taken in text.contract.takes} - needed:
            needless[name] = unused
    assert needless == {}


def test_every_text_is_named_or_a_part_of_another() -> None:
    assert set(texts()) - named() - parts() == set()


async def test_statements_return_what_they_declare_on_postgres(fresh_postgres_url: str) -> None:
    engine = PostgresEngine(fresh_postgres_url)
    connection = await engine.connect()
    try:
        for name in statements_of("postgres"):
            text = numbered("postgres", name, engine.schema, "$")
            prepared: asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record] = await connection.prepare(text.sql)
            check_columns(name, text, [attribute.name for attribute in prepared.get_attributes()])
    finally:
        await connection.close()


def test_statements_return_what_they_declare_on_sqlite(sqlite_url: str) -> None:
    connection = apsw.Connection(str(Path(sqlite_url.removeprefix("sqlite:///"))))
    for name in statements_of("sqlite"):
        text = numbered("sqlite", name, None, "?")
        found = apsw.ext.query_info(connection, text.sql).description or ()
        if text.packed is not None:
            assert len(found) == 1, f"{name} packs its rows into one value"
        else:
            check_columns(name, text, [column[0] for column in found])
    connection.close()


def check_columns(name: str, text: Text, found: list[str]) -> None:
    declared = text.contract.returns
    assert len(found) == len(declared), f"{name} returns {found} and declares {declared}"
    differ = [
        (mine, its) for mine, its in zip(declared, found, strict=True) if its in OUR_COLUMNS - FUNCTIONS and mine != its
    ]
    assert not differ, f"{name} declares other names than it returns: {differ}"
