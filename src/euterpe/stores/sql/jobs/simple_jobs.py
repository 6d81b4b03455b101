"""Simple jobs (no callback, no concurrency key), and the queues in which the fast path is worth a try.

The statement of the fast path claims only if all jobs that are next are simple; else the full path has to run after it.
So a queue that had other jobs goes by the full path at once, until that brings simple jobs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from random import Random

import msgspec

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Settlement, Success, settle_logged
from euterpe.model.job import Claim, JobRow


class SimpleCompletions(msgspec.Struct, frozen=True):
    """Jobs that completed, and nothing follows from it as far as their claims could tell: dependents may come at any
    time. In the order of ids, as heartbeats: two statements that lock the same rows in two orders would wait for each
    other."""

    ids: Sequence[str] = ()
    claim_versions: Sequence[int] = ()
    results: Sequence[bytes | None] = ()
    started: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.ids)


def simple_completions(finished: Sequence[Report]) -> SimpleCompletions | None:
    """None if something may follow from the end of one of them."""
    rows: list[tuple[str, int, bytes | None, int]] = []
    for report in finished:
        job, outcome = report.claim.job, report.outcome
        if (
            type(outcome) is not Success
            or report.log is not None
            or job.callback_url is not None
            or job.concurrency_key is not None
            or job.has_dependents
            or job.stages_json is not None
        ):
            return None
        rows.append((job.id, job.claim_version, outcome.result, job.started_at or 0))
    rows.sort(key=itemgetter(0))
    return SimpleCompletions(*zip(*rows, strict=True)) if rows else SimpleCompletions()


class SettleBatch:
    """What a turn is to settle: three lists while all are plain completions, a settlement each only when one is asked
    for. A busy worker ends thousands a second."""

    def __init__(self, finished: Sequence[Report], rng: Random) -> None:
        self._finished = finished
        self._rng = rng
        self.simple = simple_completions(finished)

    def __len__(self) -> int:
        return len(self._finished)

    @cached_property
    def settlements(self) -> list[Settlement]:
        return [settle_logged(r.claim.job, r.outcome, self._rng, r.log) for r in self._finished]

    @property
    def have_keys(self) -> bool:
        return any(report.claim.job.concurrency_key is not None for report in self._finished)

    @property
    def have_callbacks(self) -> bool:
        return self.simple is None and any(report.claim.job.callback_url is not None for report in self._finished)


def is_simple(job: JobRow) -> bool:
    """No event to write, no concurrency key to hold."""
    return job.callback_url is None and job.concurrency_key is None


class FastPathQueues:
    """The queues of one claimer, without those that lately had other jobs."""

    def __init__(self) -> None:
        self._excluded: set[str] = set()

    def allows(self, request: ClaimRequest) -> bool:
        return len(request.queues) == 1 and request.queues[0] not in self._excluded

    def exclude(self, request: ClaimRequest) -> None:
        self._excluded.update(request.queues)

    def observe(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """The full path brought these."""
        if all(is_simple(claim.job) for claim in claims):
            self._excluded.difference_update(request.queues)
