"""SQL texts: one statement a file, shared where the engines agree, in a folder of the engine's own where not.

Inside a text, `:name` is a parameter and `{{...}}` one of a few words that engines spell differently:
`{{now}}` (the clock that decides), `{{in ids uuid}}` (a list parameter), `{{lock j}}` and `{{skip_locked}}`
(row locks; SQLite has one writer and needs none), `{{by some_index}}` (SQLite is told which index to go by, where it
would read all that wait), and `{{some_columns}}` or `{{claimable}}` (the text of that file).

SQLite's drivers let go of the interpreter's lock at every row that they bind or fetch, and a busy event loop is slow to
give it back. So texts that run for hundreds of rows take them in one JSON value, `{{rows id result}}`, and give them
back in one, `{{packed some_columns}}`, made of rows that are `{{as_json some_columns}}`; see `json_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any, Final, Literal

from euterpe.stores.sql.json_rows import blob_positions, json_row, pack_columns, row_source

Family = Literal["sqlite", "postgres"]

TABLES: Final = (
    "inbox_jobs",
    "euterpe_ended_attempts",
    "job_attempts",
    "job_dependencies",
    "job_outbox_events",
    "euterpe_outbox_deliveries",
    "idempotency_keys",
    "euterpe_tombstones",
    "euterpe_pauses",
    "euterpe_requesters",
    "euterpe_webhook_secrets",
    "euterpe_api_keys",
    "euterpe_jobs",
    "euterpe_migrations",
    "euterpe_unwatched_dependencies",
    "euterpe_transcode_credentials",
    "euterpe_transcode_uploads",
    "euterpe_rate_limits",
    "euterpe_transcode_runs",
    "euterpe_transcode_shared_work",
    "euterpe_operations",
    "euterpe_sessions",
    "euterpe_key_rates",
    "euterpe_unique_jobs",
    "euterpe_crons",
    "euterpe_attempt_logs",
    "euterpe_workers",
    "euterpe_ready",
    "euterpe_claims",
)

_NOW: Final = {
    "sqlite": ":now",
    # A sub-select is evaluated once a statement; bare, the numeric arithmetic would run for every row.
    "postgres": "(SELECT COALESCE(CAST(:now AS bigint), "
    "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)))",
}
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)\b")
_ROWS: Final = re.compile(r"\{\{rows ([a-z_ ]+)\}\}")
_PACKED: Final = re.compile(r"\{\{packed ([a-z_]+)\}\}")
_TABLE: Final = re.compile(rf"\b({'|'.join(TABLES)})\b(?!\.)")


@dataclass(frozen=True, slots=True)
class Text:
    """A statement ready for a driver: parameter names in order of their first appearance."""

    sql: str
    names: tuple[str, ...]
    batched: bool
    """Whether an `Each` of it runs once, with arrays on Postgres and with `:rows` on SQLite."""
    now_at: int | None = None
    """Where the clock stands among the names."""
    values: Callable[[Mapping[str, Any]], tuple[Any, ...]] = tuple
    """Reads the parameters, all but the clock, in the order of their names."""
    row_names: tuple[str, ...] = ()
    """The columns of `:rows`, in order."""
    packed: tuple[int, ...] | None = None
    """All its rows come as one JSON value; these positions are bytes in hex."""
    is_one_row: bool = False
    """It has one row, whatever it finds (SQLite)."""


@cache
def text_of(family: Family, name: str, schema: str | None = None) -> Text:
    """The named statement for an engine family, with `:name` parameters."""
    own = files("euterpe.stores.sql").joinpath("queries", family, f"{name}.sql")
    raw = _read(family, name)
    sql = _expand(raw, family)
    sql = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).strip()
    if family == "sqlite" and (at := sql.rfind("RETURNING")) >= 0:
        # SQLite does not know a statement's alias inside its RETURNING.
        sql = sql[:at] + re.sub(r"\b[a-z]\.(?=[a-z_])", "", sql[at:])
    if schema is not None:
        sql = qualified(sql, schema)
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    if family == "postgres":
        return Text(sql, names, batched=own.is_file() and "unnest(" in sql)
    rows, packed = _ROWS.search(raw), _PACKED.search(raw)
    return Text(
        sql,
        names,
        batched=rows is not None,
        row_names=tuple(rows.group(1).split()) if rows else (),
        packed=blob_positions(_read(family, packed.group(1))) if packed else None,
        is_one_row=sql.startswith("SELECT json_group_array("),
    )


@cache
def numbered(family: Family, name: str, schema: str | None, mark: str) -> Text:
    """The same with numbered parameters: mark `$` gives $1, $2; mark `?` gives ?1, ?2."""
    text = text_of(family, name, schema)
    position = {parameter: i for i, parameter in enumerate(text.names, 1)}
    sql = _PARAMETER.sub(lambda m: f"{mark}{position[m.group(1)]}", text.sql)
    now_at = text.names.index("now") if "now" in text.names else None
    return replace(text, sql=sql, now_at=now_at, values=_reader([name for name in text.names if name != "now"]))


def _reader(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """A line of Python for each parameter would take longer than the driver takes to send it."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda params: tuple(params[name] for name in names)


def qualified(sql: str, schema: str) -> str:
    """Put our tables' schema in front of their names, so that a caller's search_path does not matter."""
    return _TABLE.sub(rf'"{schema}".\1', sql)


def _read(family: Family, name: str) -> str:
    queries = files("euterpe.stores.sql").joinpath("queries")
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
            case ["rows", *names]:
                return row_source(names)
            case ["packed", columns]:
                return pack_columns(_read(family, columns)) if family == "sqlite" else _read(family, columns).strip()
            case ["as_json", columns]:
                return json_row(_read(family, columns))
            case [part]:
                return _expand(_read(family, part).strip(), family)
            case unknown:
                raise LookupError(f"unknown word {unknown} in a SQL text")

    return re.sub(r"\{\{([^}]+)\}\}", word, sql)
