"""On Postgres only the database's clock decides; a process whose own clock is ten minutes wrong harms nobody."""

from __future__ import annotations

import time

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from tests.faults import breakers
from tests.faults.crew import Crew
from tests.faults.history import check
from tests.faults.recorder import rows
from tests.faults.stores import opened

TEN_MINUTES_S = 600.0
CLOCK = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"


@pytest.mark.parametrize("skew_s", [TEN_MINUTES_S, -TEN_MINUTES_S], ids=["fast", "slow"])
async def test_a_process_ten_minutes_off_leases_promotes_and_reclaims_by_the_clock_of_the_database(
    postgres_database: str, crew: Crew, skew_s: float
) -> None:
    async with opened(postgres_database) as store:
        mine = await store.submit(Submission(type="mine"))
        await store.claim(ClaimRequest(worker_id="w", limit=1, lease_ttl_us=60_000_000))
        [(before_us,)] = rows(postgres_database, CLOCK)
        actor = crew.start(breakers.skewed, postgres_database, skew_s)
        its_time_s, submitted, later, claims, swept = await actor.report()
        [(after_us,)] = rows(postgres_database, CLOCK)
        assert abs(its_time_s - time.time()) > 500, "its clock was not wrong: this run proved nothing"
        [claim] = claims
        assert (claim.job.id, submitted.state) == (submitted.job_id, "scheduled")
        assert before_us <= claim.job.created_at <= after_us, "stamped by the clock of the process"
        assert before_us <= claim.lease.expires_at - 30_000_000 <= after_us
        assert later.state == "delayed"
        assert (swept.promoted, swept.reclaimed, swept.lifetimes) == ([], 0, 0), "its sweep went by a wrong clock"
        assert (await store.get(mine.job_id)).state is State.RUNNING, "its sweep took a live lease away"
    check(postgres_database, crew)
