"""Many rows as one JSON value, into SQLite and out of it.

The drivers release the interpreter's lock around every row. With an event loop at work in another thread, that cost
more than SQLite itself; one value in and one out is a handful of hand-overs a batch instead of a thousand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

BLOBS: Final = frozenset({"payload", "result", "checkpoint", "body", "outcome_hash"})

_rows = msgspec.json.Decoder(list[list[Any]])


def row_source(names: Sequence[str]) -> str:
    """A table of the rows in `:rows`. JSON knows no bytes: all of them lie in `:bytes`, and a row tells where."""
    columns = []
    at = 0
    for name in names:
        if name in BLOBS:
            columns.append(f"substr(:bytes, value ->> {at}, value ->> {at + 1}) AS {name}")
            at += 2
        else:
            columns.append(f"value ->> {at} AS {name}")
            at += 1
    return f"(SELECT {', '.join(columns)} FROM json_each(:rows))"  # noqa: S608  # names out of our own files


def rows_of(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> dict[str, Any]:
    """What goes into `:rows` and `:bytes`."""
    given: list[Sequence[Any]] = []
    heap = bytearray(b"-")  # Of nothing at all SQLite's substr makes NULL, even where nothing is asked for.
    for name in names:
        if name not in BLOBS:
            given.append(columns[name])
            continue
        starts: list[int | None] = []
        for value in columns[name]:
            starts.append(None if value is None else len(heap) + 1)
            heap += value or b""
        given += [starts, [0 if value is None else len(value) for value in columns[name]]]
    return {"rows": msgspec.json.encode(list(zip(*given, strict=True))).decode(), "bytes": bytes(heap)}


def pack_columns(columns: str) -> str:
    """These columns of all rows as one value."""
    return f"json_group_array({json_row(columns)})"


def json_row(columns: str) -> str:
    """These columns of one row as JSON; bytes in hex, for JSON knows none."""
    values = (f"CASE WHEN {c} IS NOT NULL THEN hex({c}) END" if _is_blob(c) else c for c in _split(columns))
    return f"json_array({', '.join(values)})"


def blob_positions(columns: str) -> tuple[int, ...]:
    return tuple(at for at, column in enumerate(_split(columns)) if _is_blob(column))


def unpack_rows(value: Any, blobs: Sequence[int] = ()) -> list[list[Any]]:
    rows = _rows.decode(value)
    for at in blobs:
        for row in rows:
            if row[at] is not None:
                row[at] = bytes.fromhex(row[at])
    return rows


def _split(columns: str) -> list[str]:
    return [column.strip() for column in columns.split(",")]


def _is_blob(column: str) -> bool:
    return column.rpartition(".")[2] in BLOBS
