"""Completions from which nothing follows, as far as their claims can tell: no event, dependent, key, stage or log."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Success


class PlainCompletions(msgspec.Struct, frozen=True):
    """In the order of numbers, as everybody who locks many rows."""

    seqs: Sequence[int] = ()
    ids: Sequence[str] = ()
    claim_versions: Sequence[int] = ()
    results: Sequence[bytes | None] = ()
    outcome_hashes: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.ids)


def plain_completions(finished: Sequence[Report]) -> PlainCompletions | None:
    """None if more may follow from one of them than its own end."""
    rows: list[tuple[int, str, int, bytes | None, bytes | None]] = []
    for report in finished:
        job, outcome = report.claim.job, report.outcome
        if (
            type(outcome) is not Success
            or report.log is not None
            or job.concurrency_key is not None
            or job.callback_url is not None
            or job.stages_json is not None
            or job.has_dependents
        ):
            return None
        rows.append((job.seq, job.id, job.claim_version, outcome.result, report.outcome_hash))
    rows.sort(key=itemgetter(0))
    if not rows:
        return PlainCompletions()
    seqs, ids, claim_versions, results, hashes = zip(*rows, strict=True)
    return PlainCompletions(seqs, ids, claim_versions, results, hashes if hashes[0] is not None else ())
