"""SQL texts: one statement a file, in a folder by act. Engines share a text where they agree; else each has its own.

A statement begins with its contract, a line for each key. A text without one is a part of others.

    -- takes: id, result                its parameters; `each id, result`: it runs once for each row of an `Each`;
                                        `rows of id, result`: it takes all rows at once
    -- returns: job_columns, seq         the columns of its rows, `..._columns` being those of that part; `nothing`;
                                        `one row of id, state`: whatever it finds
    -- locks: waits                     for rows that somebody holds; `skips` them; or holds `none`
    -- ends: jobs                       it may end jobs (`jobs`, `dependents`, `failed jobs`); left out if it does not

A long list goes on in indented lines. Unknown keys, missing ones and what the text shows to be untrue are refused when
the text is loaded.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import itemgetter
from typing import Any, Final, Literal, cast, get_args

from euterpe.stores.sql.json_rows import blob_positions, json_row, pack_columns, row_source

Family = Literal["sqlite", "postgres"]

Locks = Literal["none", "skips", "waits"]
Ends = Literal["nothing", "jobs", "dependents", "failed jobs"]

_NOW: Final = {
    "sqlite": ":now",
    # A sub-select is evaluated once a statement; bare, the numeric arithmetic would run for every row.
    "postgres": "(SELECT COALESCE(CAST(:now AS bigint), "
    "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)))",
}
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)\b")
_ROWS: Final = re.compile(r"\{\{rows ([a-z_ ]+)\}\}")
_OTHER: Final = re.compile(r"(?:--[^\n]*\n)*\{\{([a-z_]+)\}\}\s*")
"""A file with the name of another one alone: on this engine both are one statement."""
_PACKED: Final = re.compile(r"\{\{packed ([a-z_]+)\}\}")
_CLOCK_AND_ROWS: Final = frozenset({"now", "rows", "bytes"})
"""Parameters that engines fill in by themselves."""
_KEY: Final = re.compile(r"-- ([a-z]+): (.+)")
_KEYS: Final = frozenset({"takes", "returns", "locks", "ends"})
_LOCKING: Final = re.compile(r"\b(UPDATE|DELETE|INSERT|FOR (NO KEY )?(UPDATE|SHARE)|FOR KEY SHARE|LOCK TABLE)\b")
_COMMA: Final = re.compile(r",(?![^(]*\))")
"""Between two columns."""
_LEFT_ALONE: Final = re.compile(r"\bSKIP LOCKED\b")
_MADE: Final = re.compile(r"^CREATE (?:TABLE|VIEW) (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Contract:
    """What a statement says of itself."""

    takes: tuple[str, ...]
    per: Literal["statement", "row", "batch"]
    """How often it runs for an `Each`: never (it is for a `One`), once for each row, or once for all of them."""
    returns: tuple[str, ...]
    is_one_row: bool
    """It has one row, whatever it finds."""
    locks: Locks
    ends: Ends


@dataclass(frozen=True, slots=True)
class Text:
    """A statement ready for a driver: parameter names in order of their first appearance."""

    sql: str
    names: tuple[str, ...]
    contract: Contract
    now_at: int | None = None
    """Where the clock stands among the names."""
    values: Callable[[Mapping[str, Any]], tuple[Any, ...]] = tuple
    """Reads the parameters, all but the clock, in the order of their names."""
    row_names: tuple[str, ...] = ()
    """The columns of `:rows`, in order."""
    packed: tuple[int, ...] | None = None
    """All its rows come as one JSON value; these positions are bytes in hex."""

    @property
    def batched(self) -> bool:
        """Whether an `Each` of it runs once, with arrays on Postgres and with `:rows` on SQLite."""
        if self.contract.per == "statement":
            raise LookupError(f"a statement that declares no rows was given some: {self.sql[:80]}")
        return self.contract.per == "batch"


@cache
def text_of(family: Family, name: str, schema: str | None = None) -> Text:
    """The named statement for an engine family, with `:name` parameters."""
    raw = _read(family, name)
    sql = _expand(raw, family)
    sql = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).strip()
    if family == "sqlite" and (at := sql.rfind("RETURNING")) >= 0:
        # SQLite does not know a statement's alias inside its RETURNING.
        sql = sql[:at] + re.sub(r"\b[a-z]\.(?=[a-z_])", "", sql[at:])
    if schema is not None:
        sql = qualified(sql, schema)
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    rows, packed = _ROWS.search(raw), _PACKED.search(raw)
    text = Text(
        sql,
        names,
        _contract(raw, family, name),
        row_names=tuple(rows.group(1).split()) if rows else (),
        packed=blob_positions(_read(family, packed.group(1))) if packed and family == "sqlite" else None,
    )
    if lie := _lie_in(text, family):
        raise LookupError(f"the statement {name} of {family} {lie}")
    return text


def _contract(raw: str, family: Family, name: str) -> Contract:
    """What the first lines of a text declare."""
    said: dict[str, str] = {}
    key = ""
    for line in raw.splitlines():
        if found := _KEY.fullmatch(line):
            key = found[1]
            said[key] = found[2]
        elif key and line.startswith("--    "):
            said[key] += " " + line.removeprefix("--").strip()
        else:
            break
    for wrong in said.keys() - _KEYS:
        raise LookupError(
            f"the statement {name} declares {wrong!r}, which nobody knows; known: {', '.join(sorted(_KEYS))}"
        )
    for lacking in ("takes", "returns", "locks"):
        if lacking not in said:
            raise LookupError(f"the statement {name} declares no {lacking!r} in its first lines: see statements.py")
    takes, per = said["takes"], "statement"
    if takes.startswith("each "):
        takes, per = takes.removeprefix("each "), "row"
    elif takes.startswith("rows of "):
        takes, per = takes.removeprefix("rows of "), "batch"
    returns = said["returns"]
    is_one_row = returns.startswith("one row of ")
    if said["locks"] not in get_args(Locks) or said.get("ends", "nothing") not in get_args(Ends):
        raise LookupError(
            f"the statement {name} must say locks: none, skips or waits, and ends: jobs, dependents or failed jobs"
        )
    return Contract(
        takes=_listed(takes),
        per=cast(Literal["statement", "row", "batch"], per),
        returns=tuple(_columns(family, _listed(returns.removeprefix("one row of ")))),
        is_one_row=is_one_row,
        locks=cast(Locks, said["locks"]),
        ends=cast(Ends, said.get("ends", "nothing")),
    )


def _listed(words: str) -> tuple[str, ...]:
    return () if words == "nothing" else tuple(word.strip() for word in words.split(","))


def _columns(family: Family, words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word.endswith("_columns"):
            for column in _COMMA.split(_read(family, word).strip()):
                yield column.strip(" \n{}").rpartition(".")[2].split()[0]
        else:
            yield word


def _lie_in(text: Text, family: Family) -> str:
    """What the text itself shows to be untrue."""
    contract = text.contract
    needed = {*text.row_names, *text.names} - _CLOCK_AND_ROWS
    if differ := needed - set(contract.takes):
        return f"takes what it does not declare: {sorted(differ)}"
    is_batch = "unnest(" in text.sql if family == "postgres" else bool(text.row_names)
    if contract.per == "batch" and not is_batch:
        return "takes no rows at once, and declares that it does"
    if family == "postgres":
        locking, skipping = len(_LOCKING.findall(text.sql)), len(_LEFT_ALONE.findall(text.sql))
        if (contract.locks == "none") != (locking == 0):
            return "holds rows and declares that it does not, or the other way about"
        if contract.locks == "skips" and not skipping:
            return "skips no row that somebody holds, and declares that it does"
    return ""


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
    return _any_table().sub(rf'"{schema}".\1', sql)


@cache
def table_names() -> tuple[str, ...]:
    """Our tables and views, as the schema of Postgres makes them, and the ledger."""
    folder = files("euterpe.stores.sql").joinpath("schema", "postgres")
    texts = [entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return ("euterpe_migrations", *(name for text in texts for name in _MADE.findall(text)))


@cache
def _any_table() -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(table_names())})\b(?!\.)")


def _read(family: Family, name: str) -> str:
    """The engine's own text, or the shared one."""
    for engine in (family, None):
        if (found := _texts().get((engine, name))) is not None:
            raw = found.read_text()
            other = _OTHER.fullmatch(raw)
            return raw if other is None else _read(family, other.group(1))
    raise LookupError(
        f"there is no SQL text {name} for {family}, or several folders have one: then name the folder too"
    )


@cache
def _texts() -> dict[tuple[Family | None, str], Traversable | None]:
    """Every text by its engine (None: all of them) and its name: folder and file, or the file alone if one has it."""
    whole: dict[tuple[Family | None, str], Traversable | None] = {}
    short: dict[tuple[Family | None, str], Traversable | None] = {}

    def look_into(folder: Traversable, family: Family | None, path: str) -> None:
        for entry in folder.iterdir():
            name = entry.name.removesuffix(".sql")
            if name in get_args(Family):
                look_into(entry, cast(Family, name), path)
            elif entry.is_dir():
                look_into(entry, family, f"{path}{name}/")
            elif entry.name != name:
                whole[family, path + name] = entry
                short[family, name] = None if (family, name) in short else entry

    look_into(files("euterpe.stores.sql").joinpath("queries"), None, "")
    return short | whole


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
