"""Claims as a worker can use them: readable, and with the results of other jobs where the payload refers to them.

The stored payload stays as it was submitted. A job without dependencies pays one look at a column; a batch of claims
with some pays one read of their ids, and a second one where payloads refer to results.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import msgspec

from euterpe.model.claims.outcome import Failed, Outcome, Released
from euterpe.model.claims.outcome import settle as decide
from euterpe.model.errors import EuterpeError
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim, JobRow
from euterpe.model.submitting.references import has_references, resolved
from euterpe.model.submitting.submission import PAYLOAD_CEILING
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.jobs.settle import settle
from euterpe.stores.sql.jobs.unreadable import without_unreadable
from euterpe.stores.sql.program import Program, one

log = logging.getLogger("euterpe.store")

NULL: Final = b"null"
GIVE_BACK_PAUSES_S: Final = (0.0, 0.1, 0.4)
"""Before each try. The other claims of the batch wait for it, and their leases run."""


class Dependencies(msgspec.Struct, frozen=True):
    """What a claimed job depends on. `said` are the ids by their place in its submission; a pruned one is missing."""

    ids: tuple[str, ...]
    said: dict[int, str]


async def usable_claims(
    engine: Engine, reports: EndReporter, claims: list[Claim], *, sent_as_json: bool = False
) -> list[Claim]:
    """The claims that can be worked on. The others are ended, fenced by their claim."""
    readable = await without_unreadable(engine, reports, claims, sent_as_json=sent_as_json)
    dependents = [claim for claim in readable if _lacks_dependencies(claim.job)]
    if not dependents:
        return readable
    try:
        known, results = await engine.read(lambda: _look_up(dependents))
    except EuterpeError as error:
        if not sent_as_json:
            raise  # A worker beside the database asks what it holds, and gives it back uncharged.
        # The other claims must not be lost with them.
        log.warning("results of dependencies could not be read yet", exc_info=error)
        await _give_back(dependents, engine, reports)
        return [claim for claim in readable if not _lacks_dependencies(claim.job)]
    gone: list[tuple[JobRow, str]] = []
    usable: list[Claim] = []
    for claim in readable:
        if not _lacks_dependencies(claim.job):
            usable.append(claim)
            continue
        try:
            usable.append(Claim(_with_results(claim.job, known.get(claim.job.id), results), claim.lease))
        except LookupError as missing:
            gone.append((claim.job, str(missing.args[0])))
    await _end(gone, engine, reports)
    return usable


def _lacks_dependencies(job: JobRow) -> bool:
    """It has some, and they did not come along with its claim, or their results are wanted."""
    return job.dependency is not None and (job.depends_on is None or _refers(job))


def _look_up(dependents: Sequence[Claim]) -> Program[tuple[dict[str, Dependencies], dict[str, bytes]]]:
    rows = yield one("dependency_ids", ids=[claim.job.id for claim in dependents])
    ids: dict[str, list[str]] = {}
    said: dict[str, dict[int, str]] = {}
    for job_id, depends_on, position in rows:
        ids.setdefault(job_id, []).append(depends_on)
        if position is not None:
            said.setdefault(job_id, {})[position] = depends_on
    known = {job_id: Dependencies(tuple(found), said.get(job_id, {})) for job_id, found in ids.items()}
    referring = [claim.job.id for claim in dependents if _refers(claim.job)]
    wanted = sorted({d for job_id in referring for d in said.get(job_id, {}).values()})
    results: dict[str, bytes] = {}
    if wanted:
        for job_id, result in (yield one("results_of", ids=wanted)):
            results[job_id] = NULL if result is None else bytes(result)
    return known, results


def _refers(job: JobRow) -> bool:
    return job.payload_format == "json" and has_references(job.payload)


def _with_results(job: JobRow, known: Dependencies | None, results: Mapping[str, bytes]) -> JobRow:
    """LookupError says what is wrong: a result is gone, or they are too much for one payload."""
    ids = () if known is None else known.ids
    if not _refers(job):
        return msgspec.structs.replace(job, depends_on=ids)
    places = {} if known is None else known.said
    in_order = [results.get(places.get(place, "")) for place in range(max(places, default=-1) + 1)]
    try:
        payload = resolved(job.payload, in_order)
    except LookupError as missing:
        place = missing.args[0]
        named = f" {places[place]}" if place in places else ""
        raise LookupError(
            f"the result of its dependency {place}{named} is gone: retention has removed that job"
        ) from None
    if len(payload) > PAYLOAD_CEILING:
        raise LookupError(
            f"with the results of its dependencies its payload has {len(payload)} bytes; {PAYLOAD_CEILING} are "
            "allowed: let them return where the result is stored"
        )
    return msgspec.structs.replace(job, payload=payload, depends_on=ids)


async def _end(gone: Sequence[tuple[JobRow, str]], engine: Engine, reports: EndReporter) -> None:
    """Another try would find the same."""
    if not gone:
        return
    ended = [(job, Failed(Failure(Category.PERMANENT, why, "result_gone"))) for job, why in gone]
    try:
        await _settle(ended, engine, reports)
    except EuterpeError as error:
        log.warning("jobs whose dependencies' results are gone could not be ended yet", exc_info=error)


async def _give_back(claims: Sequence[Claim], engine: Engine, reports: EndReporter) -> None:
    """Uncharged: nobody has begun them. If the database refuses that too, their leases run out."""
    released = [(claim.job, Released()) for claim in claims]
    for pause_s in GIVE_BACK_PAUSES_S:
        await asyncio.sleep(pause_s)
        try:
            return await _settle(released, engine, reports)
        except EuterpeError as error:
            log.debug("jobs could not be given back yet", exc_info=error)
    log.warning("%d jobs could not be given back; their leases will expire", len(claims))


async def _settle(outcomes: Sequence[tuple[JobRow, Outcome]], engine: Engine, reports: EndReporter) -> None:
    rng = Random()
    settlements = sorted((decide(job, outcome, rng) for job, outcome in outcomes), key=lambda s: s.job_id)
    await reports.write(lambda: settle(settlements, engine.family), EndedBy.SWEEP)
