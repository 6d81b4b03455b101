"""A worker's exchange on Postgres while jobs have concurrency keys: one statement settles, and one claims.

The first holds the locks of the keys that are freed when it is through. The second has a younger snapshot, and counts
what runs under these locks. What it cannot decide goes by `claim`, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import JobRow
from euterpe.stores.sql.exchange.one_statement import FRONT, FastPathResult, claim_parameters, exchange_parameters
from euterpe.stores.sql.exchange.simple_jobs import SimpleCompletions
from euterpe.stores.sql.jobs.claim import Claimed, ask_until_free, claim
from euterpe.stores.sql.jobs.effects import free_locked_keys, insert_events, unpark
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.picking import claims_of
from euterpe.stores.sql.jobs.settle import ClaimKey
from euterpe.stores.sql.program import Program, Row, each, one
from euterpe.stores.sql.rows import sort_by_urgency, taken_from

FULL_CLAIM_S: Final = 1.0
"""So long `claim` is asked at once after it had to be asked: a queue that has rates or chunks has them for a while."""
NOTHING: Final = ClaimRequest(worker_id="", limit=0)

_are_locked: Final = msgspec.json.Decoder(dict[str, bool])


class KeyedClaim(msgspec.Struct, frozen=True):
    claimed: Claimed
    in_one_statement: bool


class KeyedExchange:
    """Exchanges of jobs with concurrency keys; remembers for a moment that `claim` was needed."""

    def __init__(self, end_reporter: EndReporter) -> None:
        self._end_reporter = end_reporter
        self._claim_in_full_until = 0.0

    def may_run(self, request: ClaimRequest | None) -> bool:
        return request is None or (len(request.queues) == 1 and monotonic() >= self._claim_in_full_until)

    async def run(self, completions: SimpleCompletions, request: ClaimRequest | None) -> FastPathResult:
        settled, found = await self._end_reporter.write(lambda: exchange_keyed(completions, request), EndedBy.WORKER)
        claimed = found.claimed
        if not found.in_one_statement:
            self._claim_in_full_until = monotonic() + FULL_CLAIM_S
        if request is not None and claimed.is_held_up:
            claimed = await ask_until_free(
                lambda: self._end_reporter.write(lambda: claim(request, "postgres"), EndedBy.WORKER),
                lambda found: found.is_held_up,
            )
        return FastPathResult(claimed.claims, settled, was_simple=True)


def exchange_keyed(
    completions: SimpleCompletions, request: ClaimRequest | None
) -> Program[tuple[set[ClaimKey] | None, KeyedClaim]]:
    """Which were settled (None: all), and what was claimed."""
    settled, freed = (yield from _settle(completions)) if completions else (None, {})
    if request is not None and request.total > 0:
        return settled, (yield from _claim(request, freed))
    if freed:
        yield from free_locked_keys(freed)
    return settled, KeyedClaim(Claimed([], is_held_up=False), in_one_statement=True)


def _settle(completions: SimpleCompletions) -> Program[tuple[set[ClaimKey] | None, dict[str, int]]]:
    """Also how many jobs of which keys, now locked, have ended: parked ones may go instead."""
    rows = yield one("settle_keyed", **exchange_parameters(completions, NOTHING))
    ((count, ids, versions, keys, jobs),) = rows
    settled = set(zip(ids or (), versions or (), strict=True)) if count < len(completions) else None
    return settled, dict(zip(keys, jobs, strict=True))


def _claim(request: ClaimRequest, freed: Mapping[str, int]) -> Program[KeyedClaim]:
    """`freed`: keys whose locks are held, and how many of their jobs have ended."""
    taken: list[JobRow] = []
    known = dict.fromkeys(freed, True)
    look_at = sorted(freed)
    while (rest := request.after(len(taken))).total > 0:
        rows = yield one(
            "claim_keyed",
            **claim_parameters(rest),
            freed=look_at,
            keys=msgspec.json.encode(known).decode(),
            may_wait=not known,
        )
        in_one_statement, parked, locked, full, count = rows[0][:FRONT]
        if parked:
            yield from unpark(freed, parked)
            look_at = []
            continue
        if not in_one_statement:
            begun = yield from _begun(taken)
            more = yield from claim(rest, "postgres", may_wait=not known)
            claimed = Claimed(begun.claims + more.claims, more.is_held_up and not taken)
            return KeyedClaim(claimed, in_one_statement=False)
        if locked is not None:
            known |= _are_locked.decode(locked)
            continue
        taken += _jobs_on(rows, request)
        if not full:
            break
        yield each("park_rest", limit_key=sorted(full))
        if count < rest.total:
            break  # The line ends there.
    return KeyedClaim((yield from _begun(taken)), in_one_statement=True)


def _jobs_on(rows: list[Row], request: ClaimRequest) -> list[JobRow]:
    worker_id, ttl_us = request.worker_id, request.lease_ttl_us
    return [taken_from(row, worker_id, ttl_us, key=row[-2], limit=row[-1]) for row in rows if row[FRONT] is not None]


def _begun(jobs: list[JobRow]) -> Program[Claimed]:
    """With the events of those with a callback."""
    sort_by_urgency(jobs)
    if any(job.callback_url is not None for job in jobs):
        yield from insert_events(jobs)
    return Claimed(claims_of(jobs), is_held_up=False)
