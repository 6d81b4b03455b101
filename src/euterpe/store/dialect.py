"""SQL texts: one statement a file, shared where the engines agree, in a folder of the engine's own where not.

Inside a text, `:name` is a parameter and `{{...}}` one of a few words that engines spell differently:
`{{now}}` (the clock that decides), `{{in ids uuid}}` (a list parameter), `{{lock j}}` and `{{skip_locked}}`
(row locks; SQLite has one writer and needs none), `{{by some_index}}` (SQLite is told which index to go by, where it
would read all that wait), and `{{some_columns}}` (the text of that file).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal

Family = Literal["sqlite", "postgres"]

TABLES: Final = (
    "inbox_jobs",
    "ended_attempts",
    "job_attempts",
    "job_dependencies",
    "job_outbox_events",
    "outbox_deliveries",
    "idempotency_keys",
    "job_tombstones",
    "pauses",
    "requesters",
    "webhook_secrets",
    "api_keys",
    "jobs_readable",
    "schema_migrations",
)

_NOW: Final = {
    "sqlite": ":now",
    # A sub-select is evaluated once a statement; bare, the numeric arithmetic would run for every row.
    "postgres": "(SELECT COALESCE(CAST(:now AS bigint), "
    "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)))",
}
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)\b")
_TABLE: Final = re.compile(rf"\b({'|'.join(TABLES)})\b(?!\.)")


@dataclass(frozen=True, slots=True)
class Text:
    """A statement ready for a driver: parameter names in order of their first appearance."""

    sql: str
    names: tuple[str, ...]
    batched: bool
    """Whether an `Each` of it runs once, with arrays."""


@cache
def text_of(family: Family, name: str, schema: str | None = None) -> Text:
    """The named statement for an engine family, with `:name` parameters."""
    own = files("euterpe.store").joinpath("queries", family, f"{name}.sql")
    sql = _expand(_read(family, name), family)
    sql = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).strip()
    if family == "sqlite" and (at := sql.rfind("RETURNING")) >= 0:
        # SQLite does not know a statement's alias inside its RETURNING.
        sql = sql[:at] + re.sub(r"\b[a-z]\.(?=[a-z_])", "", sql[at:])
    if schema is not None:
        sql = qualified(sql, schema)
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    return Text(sql, names, batched=family == "postgres" and own.is_file() and "unnest(" in sql)


@cache
def numbered(family: Family, name: str, schema: str | None, mark: str) -> Text:
    """The same with numbered parameters: mark `$` gives $1, $2; mark `?` gives ?1, ?2."""
    text = text_of(family, name, schema)
    position = {parameter: i for i, parameter in enumerate(text.names, 1)}
    sql = _PARAMETER.sub(lambda m: f"{mark}{position[m.group(1)]}", text.sql)
    return Text(sql, text.names, text.batched)


def qualified(sql: str, schema: str) -> str:
    """Put our tables' schema in front of their names, so that a caller's search_path does not matter."""
    return _TABLE.sub(rf'"{schema}".\1', sql)


def _read(family: Family, name: str) -> str:
    queries = files("euterpe.store").joinpath("queries")
    own = queries.joinpath(family, f"{name}.sql")
    return (own if own.is_file() else queries.joinpath(f"{name}.sql")).read_text()


def _expand(sql: str, family: Family) -> str:
    def word(match: re.Match[str]) -> str:
        match match.group(1).split():
            case ["now"]:
                return _NOW[family]
            case ["in", parameter, kind]:
                if family == "postgres":
                    return f"= ANY (CAST(:{parameter} AS {kind}[]))"
                return f"IN (SELECT value FROM json_each(:{parameter}))"  # noqa: S608  # a name out of our own file
            case ["lock", alias]:
                return f"FOR NO KEY UPDATE OF {alias}" if family == "postgres" else ""
            case ["by", index]:
                return f"INDEXED BY {index}" if family == "sqlite" else ""
            case ["skip_locked"]:
                return "FOR UPDATE SKIP LOCKED" if family == "postgres" else ""
            case [columns]:
                return _read(family, columns).strip()
            case unknown:
                raise LookupError(f"unknown word {unknown} in a SQL text")

    return re.sub(r"\{\{([^}]+)\}\}", word, sql)
