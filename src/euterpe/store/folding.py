"""Many rows as one JSON value, into SQLite and out of it.

The drivers release the interpreter's lock around every row. With an event loop at work in another thread, that cost
more than SQLite itself; one value in and one out is a handful of hand-overs a batch instead of a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

BLOBS: Final = frozenset({"payload", "result", "checkpoint"})

_rows = msgspec.json.Decoder(list[list[Any]])


def row_source(names: Sequence[str]) -> str:
    """A table of the rows in `:rows`."""
    columns = ", ".join(f"value ->> {at} AS {name}" for at, name in enumerate(names))
    return f"(SELECT {columns} FROM json_each(:rows))"  # noqa: S608  # names out of our own files


def as_texts(values: Iterable[bytes | None]) -> list[str | None] | None:
    """Bytes as the text that they are; None if some are none, or none that SQLite's JSON could carry."""
    try:
        texts = [None if value is None else value.decode() for value in values]
    except UnicodeDecodeError:
        return None
    return None if any(text is not None and "\0" in text for text in texts) else texts


def rows_of(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> str:
    """What goes into `:rows`: text, numbers and nothing. Bytes must be text, which the statement casts back."""
    given = (columns[name] for name in names)
    texts = ([v.decode() for v in column] if column and isinstance(column[0], bytes) else column for column in given)
    return msgspec.json.encode(list(zip(*texts, strict=True))).decode()


def fold(columns: str) -> str:
    """These columns of all rows as one value; bytes in hex, for JSON knows none."""
    folded = (f"CASE WHEN {c} IS NOT NULL THEN hex({c}) END" if _is_blob(c) else c for c in _split(columns))
    return f"json_group_array(json_array({', '.join(folded)}))"


def blob_positions(columns: str) -> tuple[int, ...]:
    return tuple(at for at, column in enumerate(_split(columns)) if _is_blob(column))


def unfold(value: Any, blobs: Sequence[int]) -> list[list[Any]]:
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
