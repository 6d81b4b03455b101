"""Every job and every event goes to exactly one of many processes that want it."""

from __future__ import annotations

from collections import Counter

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.submitting.submission import Submission
from tests.faults import actors
from tests.faults.crew import Crew, together
from tests.faults.history import check
from tests.faults.stores import opened

JOBS = 1500
CLAIMERS = 10


@pytest.mark.parametrize("priorities", [5, 1], ids=["lone runs", "long runs"])
async def test_ten_processes_claim_each_job_exactly_once(database: str, crew: Crew, priorities: int) -> None:
    """On Postgres, jobs of one priority stand in long runs of the line."""
    async with opened(database) as store:
        await store.submit_many([Submission(type="t", priority=i % priorities) for i in range(JOBS)])
    taken = await together(crew.start_many(CLAIMERS, actors.claimer, database, 7))
    assert sum(taken) == JOBS, "jobs were lost, or given to more than one"
    claims = Counter((said["job_id"], said["version"]) for said in crew.notes("claimed"))
    assert len({job_id for job_id, _ in claims}) == JOBS
    assert set(claims.values()) == {1}
    assert {version for _, version in claims} == {1}
    assert sum(1 for count in taken if count) > 1, "one process did it all: this run proved nothing"
    check(database, crew)


async def test_eight_dispatchers_claim_each_event_once_and_only_the_first_of_a_job(database: str, crew: Crew) -> None:
    async with opened(database) as store:
        await store.submit_many([Submission(type="t", callback_url="http://receiver.invalid/") for _ in range(200)])
        claims = await store.claim(ClaimRequest(worker_id="w", limit=200))
        await store.settle([Report(claim, Success()) for claim in claims])
    taken = [event for some in await together(crew.start_many(8, actors.dispatcher, database, 5)) for event in some]
    assert len({event_id for event_id, *_ in taken}) == len(taken)
    assert Counter(job_id for _, _, job_id, _ in taken) == Counter(claim.job.id for claim in claims), (
        "of each job the first event alone may be on its way, else the second could arrive before it"
    )
    check(database, crew)
