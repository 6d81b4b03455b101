"""What a SQL text does to tables, read out of the text itself: which rows it locks or writes, in which order, and under
which conditions. The explorer's programs are held against this, so they cannot drift away from the code."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from euterpe.stores.sql.statements import text_of

_NAME = re.compile(r"(?:WITH|,)\s*(\w+) AS (?:MATERIALIZED )?\(")
_VERBS = re.compile(r"(INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_LOCK = re.compile(r"FOR (?:NO KEY )?UPDATE(?: OF \w+(?:, \w+)*)?( SKIP LOCKED)?")
_TABLE = re.compile(r"(?:FROM|JOIN) (inbox_jobs|euterpe_line|euterpe_keys)")
_CLAUSE = re.compile(r" (?:RETURNING|ORDER BY|LIMIT|FOR UPDATE|FOR NO KEY UPDATE|GROUP BY|WINDOW|HAVING|ON CONFLICT) ")
WORDS = {"INSERT INTO": "insert", "UPDATE": "update", "DELETE FROM": "delete"}


class Step(NamedTuple):
    """One part of a statement that locks or writes rows."""

    name: str
    """Of its CTE; "" for the statement itself."""
    does: str
    """insert, update, delete, or lock: SELECT ... FOR UPDATE."""
    table: str
    skips: bool
    """It passes over rows that somebody holds."""


@cache
def parts_of(statement: str) -> dict[str, str]:
    """The text of each CTE by its name, and of the statement itself under ""; white space is single."""
    sql = " ".join(re.sub(r"--.*", "", text_of("postgres", statement).sql).split())
    parts: dict[str, str] = {}
    at = 0
    while match := _NAME.match(sql, at):
        end = _closing(sql, match.end())
        parts[match.group(1)] = sql[match.end() : end].strip()
        at = end + 1
    return parts | {"": sql[at:].strip()}


def steps_of(statement: str) -> list[Step]:
    """In the order of the text, which is the order in which Postgres needs their answers."""
    found = []
    for name, text in parts_of(statement).items():
        if verb := _VERBS.match(text):
            found.append(Step(name, WORDS[verb.group(1)], verb.group(2), skips=False))
        elif lock := _LOCK.search(text):
            depth = _depth(text, lock.start())
            tables = [m.group(1) for m in _TABLE.finditer(text) if _depth(text, m.start()) == depth]
            found.append(Step(name, "lock", "+".join(tables), skips=lock.group(1) is not None))
    return found


def conditions_of(statement: str, part: str) -> set[str]:
    """What the WHERE of this part asks, one by one."""
    text = parts_of(statement).get(part, "")
    at = _outside(text, " WHERE ")
    if at is None:
        return set()
    where = text[at + len(" WHERE ") :]
    ends = [m.start() for m in _CLAUSE.finditer(where) if _depth(where, m.start()) == 0]
    return set(_split(where[: min(ends)] if ends else where))


def _closing(sql: str, start: int) -> int:
    depth = 1
    for at in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[at], 0)
        if depth == 0:
            return at
    raise ValueError("a parenthesis that nobody closes")


def _depth(text: str, at: int) -> int:
    return text.count("(", 0, at) - text.count(")", 0, at)


def _outside(text: str, word: str) -> int | None:
    """The last place of this word outside of parentheses."""
    places = [m.start() for m in re.finditer(re.escape(word), text) if _depth(text, m.start()) == 0]
    return places[-1] if places else None


def _split(where: str) -> list[str]:
    found, start = [], 0
    for match in re.finditer(" AND ", where):
        if _depth(where, match.start()) == 0:
            found.append(where[start : match.start()].strip())
            start = match.end()
    return [*found, where[start:].strip()]
