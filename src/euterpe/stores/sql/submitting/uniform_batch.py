"""Storing jobs of one kind: a single one, or a batch that differs in ids and payloads only.

What they share is read once and sent once. That is a third of the time of a single submit on Postgres, and two thirds
of a batch's on SQLite.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from msgspec.structs import astuple

from euterpe.model.submitting.batch import Draft, JobKind, Unit
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.program import One, Program, one
from euterpe.stores.sql.statements import Family

_PAYLOAD: Final = Submission.__struct_fields__.index("payload")
_before_payload: Final = itemgetter(slice(0, _PAYLOAD))
_behind_payload: Final = itemgetter(slice(_PAYLOAD + 1, None))


def uniform_statement(
    units: Sequence[Unit], drafts: Sequence[Draft], family: Family, channel: str | None = None
) -> One | None:
    """The statement that stores all drafts of these units; None where they differ in more than id and payload. With a
    channel, a lone job's notifies."""
    kind = _kind_of(units)
    if kind is None:
        return None
    params = kind.columns.copy()
    if len(drafts) == 1:
        params["id"], params["payload"] = drafts[0].id, drafts[0].submission.payload
        if family == "postgres":
            params["channel"] = channel
        return One("insert_one", params)
    params["id"], params["payload"] = [d.id for d in drafts], [d.submission.payload for d in drafts]
    return One("insert_uniform", params)


def _kind_of(units: Sequence[Unit]) -> JobKind | None:
    """What all of them are, if they differ in no more than id and payload."""
    if len(units) == 1 and units[0].kind is not None:
        return units[0].kind
    said = [submission for unit in units for submission in unit.said]
    return JobKind(said[0]) if len(said) == 1 or _differ_in_payload_at_most(said) else None


def _differ_in_payload_at_most(submissions: Sequence[Submission]) -> bool:
    """Without a line of Python for each of them: this is asked for every job that is submitted."""
    said = list(map(astuple, submissions))
    before, behind = _before_payload(said[0]), _behind_payload(said[0])
    return all(map(before.__eq__, map(_before_payload, said))) and all(map(behind.__eq__, map(_behind_payload, said)))


def insert_uniform(statement: One) -> Program[tuple[str, int]]:
    """Their state and the time of their creation, which are the same for all."""
    rows = yield statement
    if not rows:  # On SQLite: a RETURNING would come back row by row.
        rows = yield one("stored_as", id=statement.params["id"][0])
    return rows[0][0], rows[0][1]
