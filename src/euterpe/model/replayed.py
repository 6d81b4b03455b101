"""What came of a replay."""

from __future__ import annotations

import msgspec

from euterpe.model.batch import Receipt
from euterpe.model.job import JobRow


class Replayed(msgspec.Struct, frozen=True):
    """What came of a replay: the job itself, scheduled again, or the receipt of the new one; and its dependents'."""

    first: Receipt | JobRow
    dependents: list[Receipt]
