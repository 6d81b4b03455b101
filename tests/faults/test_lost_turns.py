"""Turns whose answers are lost: every end and its event is there once, uncharged."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import EuterpeError
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from tests.faults.history import check
from tests.faults.proxy import Cut, proxied
from tests.faults.recorder import rows
from tests.faults.stores import opened

JOBS = 60
AT = (
    "COMMIT",
    "INSERT INTO job_outbox_events",
    "BEGIN",
    "euterpe_running",
    "euterpe_line",
)
CALLBACK = {"callback_url": "http://receiver.invalid/", "callback_events": "terminal"}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("told", [{}, CALLBACK], ids=["plain", "told"])
async def test_turns_whose_answers_are_lost_end_every_job_once(
    postgres_database: str, seed: int, told: dict[str, Any]
) -> None:
    rng = Random(seed)
    async with proxied(postgres_database) as (proxy, url), opened(url) as store, opened(postgres_database) as other:
        await other.submit_many([Submission(type="t", max_attempts=3, **told)] * JOBS)
        in_hand: dict[str, Claim] = {}
        finished: list[Report] = []
        cuts = 0
        for _ in range(200):
            if cuts < 40 and rng.random() < 0.7:
                proxy.cut(rng.choice(AT), rng.choice((Cut.BEFORE, Cut.AFTER)))
            claims: list[Claim] = []
            try:
                request = ClaimRequest(worker_id="w", limit=rng.choice((1, 2, 4))) if rng.random() < 0.9 else None
                results, claims = await store.exchange(finished, request)
                assert all(result.accepted for result in results)
                for report in finished:
                    del in_hand[report.claim.job.id]
                finished = []
            except EuterpeError:
                cuts += 1
                known = [(c.job.id, c.job.claim_version) for c in in_hand.values()]
                await other.sweeps.release_unbegun("w", known)
            in_hand |= {claim.job.id: claim for claim in claims}
            ready = [c for c in in_hand.values() if c not in [r.claim for r in finished]]
            finished += [Report(c, Success(b"1")) for c in ready if rng.random() < 0.6]
            if not in_hand and not rows(postgres_database, "SELECT 1 FROM inbox_jobs WHERE state <> 'completed'"):
                break
        assert cuts > 0
    ended = "SELECT state, attempt_count, count(*) FROM inbox_jobs GROUP BY 1, 2"
    assert rows(postgres_database, ended) == [("completed", 1, JOBS)]
    events = rows(postgres_database, "SELECT count(*), count(DISTINCT job_id) FROM job_outbox_events")
    assert events == [(JOBS, JOBS) if told else (0, 0)]
    assert rows(postgres_database, "SELECT count(*) FROM euterpe_line") == [(0,)]
    check(postgres_database)
