"""Simple jobs (no key, no callback but for their end), and the queues in which the fast path is worth a try.

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
from euterpe.model.events.callback_events import TERMINAL_ONLY
from euterpe.model.job import Claim, JobRow


class SimpleCompletions(msgspec.Struct, frozen=True):
    """Jobs that completed, and little follows from it as far as their claims could tell: dependents may come at any
    time. In the order of ids, as heartbeats: two statements that lock the same rows in two orders would wait for each
    other."""

    ids: Sequence[str] = ()
    claim_versions: Sequence[int] = ()
    results: Sequence[bytes | None] = ()
    seqs: Sequence[int] = ()
    started: Sequence[int] = ()
    worker_id: str | None = None
    """Who claimed them."""
    with_callbacks: Sequence[tuple[JobRow, bytes | None]] = ()
    """Those whose end is told to a callback, with their results."""
    have_dependents: bool = False
    """As their claims could tell: some of them have."""

    def __len__(self) -> int:
        return len(self.ids)

    def without_callbacks(self) -> SimpleCompletions:
        """Those of whose end nobody is told."""
        if not self.with_callbacks:
            return self
        with_callbacks = {job.id for job, _ in self.with_callbacks}
        at = [place for place, job_id in enumerate(self.ids) if job_id not in with_callbacks]
        return SimpleCompletions(
            ids=[self.ids[i] for i in at],
            claim_versions=[self.claim_versions[i] for i in at],
            results=[self.results[i] for i in at],
            seqs=[self.seqs[i] for i in at],
            started=[self.started[i] for i in at],
            worker_id=self.worker_id,
        )


def simple_completions(finished: Sequence[Report], *, with_keys: bool = False) -> SimpleCompletions | None:
    """None if more than an event, or the release of dependents, may follow from the end of one of them. `with_keys`:
    more than that their keys are free again."""
    rows: list[tuple[str, int, bytes | None, int, int]] = []
    with_callbacks: list[tuple[JobRow, bytes | None]] = []
    have_dependents = False
    worker_id = finished[0].claim.job.worker_id if finished else None
    for report in finished:
        job, outcome = report.claim.job, report.outcome
        if (
            type(outcome) is not Success
            or report.log is not None
            or (job.concurrency_key is not None and not with_keys)
            or (job.callback_url is not None and (with_keys or job.callback_events != TERMINAL_ONLY))
            or job.stages_json is not None
            or job.worker_id != worker_id
        ):
            return None
        rows.append((job.id, job.claim_version, outcome.result, job.seq, job.started_at or 0))
        if job.callback_url is not None:
            with_callbacks.append((job, outcome.result))
        if job.has_dependents:
            have_dependents = True
    if have_dependents and (with_callbacks or with_keys):
        return None
    rows.sort(key=itemgetter(0))
    if not rows:
        return SimpleCompletions()
    ids, claim_versions, results, seqs, started = zip(*rows, strict=True)
    return SimpleCompletions(ids, claim_versions, results, seqs, started, worker_id, with_callbacks, have_dependents)


class SettleBatch:
    """What a turn is to settle: three lists while all are plain completions, a settlement each only when one is asked
    for. A busy worker ends thousands a second."""

    def __init__(self, finished: Sequence[Report], rng: Random) -> None:
        self._finished = finished
        self._rng = rng
        self.simple = simple_completions(finished)

    def __len__(self) -> int:
        return len(self._finished)

    @property
    def finished(self) -> Sequence[Report]:
        return self._finished

    @cached_property
    def settlements(self) -> list[Settlement]:
        return [settle_logged(r.claim.job, r.outcome, self._rng, r.log) for r in self._finished]

    @cached_property
    def keyed(self) -> SimpleCompletions | None:
        """They may have concurrency keys; None if anything else follows from the end of one of them."""
        return simple_completions(self._finished, with_keys=True)

    @property
    def have_keys(self) -> bool:
        return any(report.claim.job.concurrency_key is not None for report in self._finished)

    @property
    def have_callbacks(self) -> bool:
        if self.simple is not None:
            return bool(self.simple.with_callbacks)
        return any(report.claim.job.callback_url is not None for report in self._finished)


def is_simple(job: JobRow) -> bool:
    """No event to write, no concurrency key to hold."""
    return job.callback_url is None and job.concurrency_key is None


def is_simple_to_claim(job: JobRow) -> bool:
    """No event to write when it begins, no concurrency key to hold. `plain.sql` says the same."""
    return (job.callback_url is None or job.callback_events == TERMINAL_ONLY) and job.concurrency_key is None


class FastPathQueues:
    """The queues of one claimer, without those that lately had other jobs."""

    def __init__(self) -> None:
        self._excluded: set[str] = set()

    def allows(self, request: ClaimRequest) -> bool:
        return len(request.queues) == 1 and request.queues[0] not in self._excluded

    def exclude(self, request: ClaimRequest) -> None:
        self._excluded.update(request.queues)

    def observe(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """The full path brought these. Nothing tells nothing: the jobs may have had keys that somebody else held."""
        if claims and all(is_simple_to_claim(claim.job) for claim in claims):
            self._excluded.difference_update(request.queues)
