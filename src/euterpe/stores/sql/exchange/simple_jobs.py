"""What a turn is to settle, and on SQLite the completions that are settled from the claims in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from random import Random

import msgspec

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Settlement, Success, settle_logged
from euterpe.model.events.callback_events import TERMINAL_ONLY
from euterpe.model.job import JobRow
from euterpe.stores.sql.exchange.plain import PlainCompletions, plain_completions


class SimpleCompletions(msgspec.Struct, frozen=True):
    """Jobs that completed, and little follows from it as far as their claims could tell: dependents may come at any
    time. In the order of ids, as heartbeats: two statements that lock the same rows in two orders would wait for each
    other."""

    ids: Sequence[str] = ()
    claim_versions: Sequence[int] = ()
    results: Sequence[bytes | None] = ()
    seqs: Sequence[int] = ()
    outcome_hashes: Sequence[bytes] = ()
    """Of the reports of HTTP workers."""
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
        )


def simple_completions(finished: Sequence[Report], *, with_keys: bool = False) -> SimpleCompletions | None:
    """None if more than an event, or the release of dependents, may follow from the end of one of them. `with_keys`:
    more than that their keys are free again."""
    rows: list[tuple[str, int, bytes | None, int, bytes | None]] = []
    with_callbacks: list[tuple[JobRow, bytes | None]] = []
    have_dependents = False
    for report in finished:
        job, outcome = report.claim.job, report.outcome
        if (
            type(outcome) is not Success
            or report.log is not None
            or (job.concurrency_key is not None and not with_keys)
            or (job.callback_url is not None and (with_keys or job.callback_events != TERMINAL_ONLY))
            or job.stages_json is not None
        ):
            return None
        rows.append((job.id, job.claim_version, outcome.result, job.seq, report.outcome_hash))
        if job.callback_url is not None:
            with_callbacks.append((job, outcome.result))
        if job.has_dependents:
            have_dependents = True
    if have_dependents and (with_callbacks or with_keys):
        return None
    rows.sort(key=itemgetter(0))
    if not rows:
        return SimpleCompletions()
    ids, claim_versions, results, seqs, hashes = zip(*rows, strict=True)
    outcome_hashes = hashes if hashes[0] is not None else ()
    return SimpleCompletions(ids, claim_versions, results, seqs, outcome_hashes, with_callbacks, have_dependents)


class SettleBatch:
    """What a turn is to settle: three lists while all are plain completions, a settlement each only when one is asked
    for. A busy worker ends thousands a second."""

    def __init__(self, finished: Sequence[Report], rng: Random) -> None:
        self._finished = finished
        self._rng = rng

    def __len__(self) -> int:
        return len(self._finished)

    @property
    def finished(self) -> Sequence[Report]:
        return self._finished

    @cached_property
    def settlements(self) -> list[Settlement]:
        return [settle_logged(r.claim.job, r.outcome, self._rng, r.log, r.outcome_hash) for r in self._finished]

    @cached_property
    def plain(self) -> PlainCompletions | None:
        """All of them, if nothing follows from the end of any."""
        return plain_completions(self._finished)

    @cached_property
    def simple(self) -> SimpleCompletions | None:
        return simple_completions(self._finished)

    @property
    def is_over_http(self) -> bool:
        return bool(self._finished) and self._finished[0].outcome_hash is not None

    @property
    def have_callbacks(self) -> bool:
        return any(report.claim.job.callback_url is not None for report in self._finished)
