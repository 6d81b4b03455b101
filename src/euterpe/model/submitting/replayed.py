"""What came of a replay."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.job import JobRow
from euterpe.model.submitting.batch import SubmitResult

REPLAY_KEY: Final = "euterpe:replay:"
"""With the ended job's id behind it, the idempotency key of its replay."""


class Replayed(msgspec.Struct, frozen=True):
    """What came of a replay: the job itself, scheduled again, or the answer of the new one; and its dependents'."""

    first: SubmitResult | JobRow
    dependents: list[SubmitResult]
