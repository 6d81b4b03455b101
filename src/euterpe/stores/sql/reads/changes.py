"""What one requester may see of the whole: the changes of its own jobs as they happen.

There is no change log to read. The newest jobs of each state and those the caller follows by id are looked at, so the
cost of a look is bounded whatever the history; a caller that follows its live jobs misses none of their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from euterpe.model.reading.views import Change
from euterpe.model.state import State
from euterpe.stores.sql.program import Program, Row, one

NEWEST_OF_A_STATE: Final = 500


def changes(requesters: Sequence[str], since: int, followed: Sequence[str]) -> Program[list[Change]]:
    found: dict[str, Change] = {}
    for state in State:
        rows = yield one("newest_changes", state=state, limit=NEWEST_OF_A_STATE, since=since, owners=list(requesters))
        found.update((row[0], _change(row)) for row in rows)
    # The followed ones last: a job that moved while the states were read in turn is shown where it is now.
    if followed:
        rows = yield one("changes_of", ids=list(followed))
        found.update((row[0], _change(row)) for row in rows)
    return sorted(found.values(), key=lambda change: (change.updated_at, change.sequence))


def _change(row: Row) -> Change:
    values = list(row)
    values[4] = State(values[4])
    return Change(*values)
