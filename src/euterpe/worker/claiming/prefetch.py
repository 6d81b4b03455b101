"""The ready buffer: a little work beyond the free slots, so that a slot that falls free need not wait for the database.

An exchange with the database costs about as much for one job as for thirty. With few slots a worker would make many
small ones; with a buffer of some milliseconds of work it makes few large ones, whatever the number of its slots.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from euterpe.model.job import Claim

AHEAD_S: Final = 0.04
"""How much work waits: what lately ended in this long. More gains nothing, and other workers wait for it."""
FEW_AHEAD: Final = 400
FEW_AHEAD_S: Final = 0.1
"""Where that are few, because many workers share the line or the jobs are not that short: so many, if they are work for
this long. An exchange of a hundred jobs costs both sides nearly as much as one of some hundreds."""
AHEAD_LIMIT: Final = 2000
"""Two lanes with a whole claim each: 40 ms of the shortest jobs."""
WINDOW_S: Final = 0.25
"""The rate is that of so long ago until now."""
SHORTEST_WINDOW_S: Final = 0.05
SHORT_S: Final = 0.05
"""Jobs of a type that lately took longer are claimed for free slots only."""
SAMPLE: Final = 20
"""Of how many jobs of an exchange the duration is looked at."""
WEIGHT: Final = 0.2
"""Of the latest duration in the mean of its type."""
PATIENCE_S: Final = 0.5
"""A job that has waited so long, because its neighbours took longer than they used to, is given back."""


class Pace:
    """How fast jobs lately ended, and of which types they are short."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended: deque[tuple[float, int]] = deque()
        self._count = 0
        self._took_s: dict[str, float] = {}
        self._short: tuple[str, ...] = ()

    def ended(self, count: int, sample: Iterable[tuple[str, float]]) -> None:
        """So many attempts ended since the last time; the types and durations of some."""
        now = self._clock()
        self._forget(now)
        self._ended.append((now, count))
        self._count += count
        for job_type, took_s in sample:
            mean_s = self._took_s.get(job_type, took_s)
            self._took_s[job_type] = mean_s + WEIGHT * (took_s - mean_s)
        short = tuple(job_type for job_type, mean_s in self._took_s.items() if mean_s <= SHORT_S)
        if short != self._short:
            self._short = short

    @property
    def short_types(self) -> tuple[str, ...]:
        return self._short

    def ahead(self) -> int:
        """How many jobs are work for a moment."""
        now = self._clock()
        self._forget(now)
        if not self._ended:
            return 0
        per_s = self._count / max(SHORTEST_WINDOW_S, now - self._ended[0][0])
        return int(min(AHEAD_LIMIT, max(AHEAD_S * per_s, min(FEW_AHEAD, FEW_AHEAD_S * per_s))))

    def _forget(self, now: float) -> None:
        while self._ended and self._ended[0][0] < now - WINDOW_S:
            self._count -= self._ended.popleft()[1]


class ReadyJob(msgspec.Struct, frozen=True, gc=False):
    """A claim that waits for a slot."""

    priority: int
    seq: int
    taken_at: float
    slot: int
    """Its place in the table of leases."""
    claim: Claim


_PRIORITY: Final = attrgetter("priority")
_SEQ: Final = attrgetter("seq")


class ReadyBuffer:
    """Claims that wait for a slot of this worker; the most urgent first, the oldest first among those."""

    def __init__(self) -> None:
        self.line: list[ReadyJob] = []
        """The next one last."""

    def __len__(self) -> int:
        return len(self.line)

    def __iter__(self) -> Iterator[ReadyJob]:
        return iter(self.line)

    def add(self, ready: Sequence[ReadyJob]) -> None:
        """A claim brings them in order, so sorting finds a few runs and merges them: a fifth of what a heap costs. Two
        sorts by a number each are cheaper than one by a pair."""
        self.line[:0] = reversed(ready)
        self.line.sort(key=_SEQ, reverse=True)
        self.line.sort(key=_PRIORITY, reverse=True)

    def next(self) -> ReadyJob:
        return self.line.pop()

    def withdraw(self, names: Container[tuple[str, int]]) -> list[ReadyJob]:
        """Take out those with these job_ids and claim_versions."""
        found: list[ReadyJob] = []
        left: list[ReadyJob] = []
        for ready in self.line:
            lease = ready.claim.lease
            (found if (lease.job_id, lease.claim_version) in names else left).append(ready)
        self.line = left
        return found

    def take_all(self) -> list[ReadyJob]:
        line, self.line = self.line, []
        return line

    def take_older_than(self, moment: float) -> list[ReadyJob]:
        old = [ready for ready in self.line if ready.taken_at < moment]
        if old:
            self.line = [ready for ready in self.line if ready.taken_at >= moment]
        return old
