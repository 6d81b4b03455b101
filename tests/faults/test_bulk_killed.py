"""An operation on many jobs, killed ten times on the way: each job is acted on exactly once."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from euterpe.backends.engines import connect
from euterpe.model.bulk import Action, BulkOrder, OperationState
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission

ROOT = Path(__file__).resolve().parents[2]
JOBS = 90


@pytest.mark.parametrize("engine", ["sqlite_url", "fresh_postgres_url"])
async def test_ten_kills_on_the_way_and_every_job_is_replayed_exactly_once(
    engine: str, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(engine)
    backend = connect(url)
    await backend.open()
    store = backend.store
    await store.submit_many([Submission(type="t") for _ in range(JOBS)])
    claims = await store.claim(ClaimRequest(worker_id="w", limit=JOBS))
    broken = Failed(Failure(Category.PERMANENT, "no luck"))
    await store.settle([Report(claim, broken) for claim in claims])
    search = parse_query("state:failed", await store.now_us())
    order = BulkOrder(action=Action.REPLAY, query="state:failed", search=search, ordered_by="local")
    operation, _ = await store.operations.order(order)
    victims = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.bulk_victims", url, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, said = await victims.communicate()
    assert victims.returncode == 0, said.decode()
    told = await store.operations.get(operation.id)
    assert (told.state, told.done, told.examined) == (OperationState.COMPLETED, JOBS, JOBS)
    page = await store.search(Search(state=State.SCHEDULED, limit=1000))
    assert Counter(job.replay_of for job in page.jobs) == Counter(claim.job.id for claim in claims)
    await backend.close()
