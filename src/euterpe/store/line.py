"""Where in a long line a claimer was last, so that it need not walk the whole way again.

What was claimed a moment ago still stands in the index until no snapshot can see it, and what others are claiming is
locked: a claim that starts at the front walks past all of it, the longer the more workers there are and the older
the oldest snapshot is. So a claimer that takes large batches goes on behind its last one. Whatever joins the line
further in front (a more urgent job, a retry) is seen at the next walk from the front, a quarter of a second
later at most, or as soon as a batch is not full.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.job import Claim
from euterpe.ports import ClaimRequest

Place = tuple[int, int]
"""Priority and seq."""
FRONT: Final[Place] = (-1, 0)
FROM_THE_FRONT_S: Final = 0.25
LONG: Final = 100
"""Claims of fewer jobs always start at the front: they are quick there, or the line is short."""


class _Seen(msgspec.Struct):
    place: Place
    from_front_at: float


class Lines:
    """The places of one claimer, by queue."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def place(self, request: ClaimRequest | None) -> Place:
        """Behind which job to start."""
        if request is None or request.limit < LONG:
            return FRONT
        seen = self._seen.get(request.queues[0])
        if seen is None or time.monotonic() - seen.from_front_at > FROM_THE_FRONT_S:
            return FRONT
        return seen.place

    def went(self, request: ClaimRequest | None, start: Place, claims: Sequence[Claim]) -> None:
        """`claims`, in order, are what was found from `start` on."""
        if request is None:
            return
        queue = request.queues[0]
        if len(claims) < request.limit or request.limit < LONG:
            self._seen.pop(queue, None)
            return
        last = (claims[-1].job.priority, claims[-1].job.seq)
        seen = self._seen.get(queue)
        if start == FRONT or seen is None:
            self._seen[queue] = _Seen(last, time.monotonic())
        else:
            seen.place = max(seen.place, last)
