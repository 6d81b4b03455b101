"""Claimed jobs whose rows cannot be read end alone, before a worker sees them; everything else goes on.

The good path pays one look at four columns that most jobs leave empty. Where payloads and checkpoints travel inside a
JSON answer, each is read once too (0.4 us for a small one): one that is no JSON would spoil the answer for all others.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from euterpe.model.claims.outcome import unprocessable_row
from euterpe.model.errors import EuterpeError
from euterpe.model.job import Claim
from euterpe.model.reading.readable import columns_not_json, unreadable_columns
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.settle import settle

log = logging.getLogger("euterpe.store")


async def without_unreadable(
    engine: Engine, reports: EndReporter, claims: list[Claim], *, sent_as_json: bool = False
) -> list[Claim]:
    """The claims that can be worked on. The others are dead-lettered, fenced by their claim."""
    suspects = [
        c for c in claims
        if c.job.callback_url or c.job.tags_json or c.job.retry_policy or c.job.stages_json
    ]  # fmt: skip
    unreadable = {id(c): columns for c in suspects if (columns := unreadable_columns(c.job))} if suspects else {}
    if sent_as_json:
        for c in claims:
            if columns := columns_not_json(c.job):
                unreadable.setdefault(id(c), []).extend(columns)
    if not unreadable:
        return claims
    await _end([(c, unreadable[id(c)]) for c in claims if id(c) in unreadable], engine, reports)
    return [c for c in claims if id(c) not in unreadable]


async def _end(unreadable: Sequence[tuple[Claim, list[str]]], engine: Engine, reports: EndReporter) -> None:
    for claim, _ in unreadable:
        said = {"job_id": claim.job.id, "claim_version": claim.job.claim_version, "queue": claim.job.queue}
        log.error("the stored row of a job cannot be read; it goes to the dead letter", extra=said)
    ends = sorted((unprocessable_row(claim.job, columns) for claim, columns in unreadable), key=lambda s: s.job_id)
    try:
        await reports.write_quietly(lambda: settle(ends, engine.family), EndedBy.SWEEP)
    except EuterpeError as error:
        # The good claims of the batch must not be lost with it: these leases run out, and the next claim tries again.
        log.warning("jobs that cannot be read could not be ended yet", exc_info=error)
