"""Plain jobs, from whose claim or end nothing else follows, and the queues in which they are worth a try.

A brief statement claims only if all that is next in line is plain, else the general way has to be taken after it. So
where the line was not plain, the general way is taken at once until it brings plain jobs only.
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


class PlainCompletions(msgspec.Struct, frozen=True):
    """Jobs that completed, and nothing follows from it as far as their claims could tell: dependents may come at any
    time. In the order of ids, as heartbeats: two statements that lock the same rows in two orders would wait for each
    other."""

    ids: Sequence[str] = ()
    claim_versions: Sequence[int] = ()
    results: Sequence[bytes | None] = ()

    def __len__(self) -> int:
        return len(self.ids)


def plain_completions(finished: Sequence[Report]) -> PlainCompletions | None:
    """None if something may follow from the end of one of them."""
    rows: list[tuple[str, int, bytes | None]] = []
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
        rows.append((job.id, job.claim_version, outcome.result))
    rows.sort(key=itemgetter(0))
    return PlainCompletions(*zip(*rows, strict=True)) if rows else PlainCompletions()


class Endings:
    """What a turn is to settle: three lists while all are plain completions, a settlement each only when one is asked
    for. A busy worker ends thousands a second."""

    def __init__(self, finished: Sequence[Report], rng: Random) -> None:
        self._finished = finished
        self._rng = rng
        self.plain = plain_completions(finished)

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
        return self.plain is None and any(report.claim.job.callback_url is not None for report in self._finished)


def is_plain(job: JobRow) -> bool:
    """No event to write, no concurrency key to hold."""
    return job.callback_url is None and job.concurrency_key is None


class PlainLines:
    """What one claimer lately saw."""

    def __init__(self) -> None:
        self._not_plain: set[str] = set()

    def may_be(self, request: ClaimRequest) -> bool:
        return len(request.queues) == 1 and request.queues[0] not in self._not_plain

    def was_not(self, request: ClaimRequest) -> None:
        self._not_plain.update(request.queues)

    def saw(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """The general way brought these."""
        if all(is_plain(claim.job) for claim in claims):
            self._not_plain.difference_update(request.queues)
