"""The watch itself: what it must see in a database, and how long it may last."""

from __future__ import annotations

import pytest

import euterpe
from euterpe.model.claims.exchange import ClaimRequest
from euterpe.queue.queue import core_of
from tests.campaign.waits import Waits, waiting
from tests.faults.recorder import run

MUCH_LATER = 9_000_000_000_000_000


@pytest.fixture(params=["sqlite_url", "fresh_postgres_url"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


RUNNING = "state = 'running', started_at = 1, worker_id = 'w', claim_version = 1"
"""A worker without an end has them all."""


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("scheduled_at = 1", "jobs are ready and slots are free"),
        (f"{RUNNING}, lease_expires_at = 1", "the lease of job ID is over"),
        (f"{RUNNING}, lease_expires_at = {MUCH_LATER}", None),
        ("state = 'delayed', run_at = 1", "job ID is due"),
        (f"state = 'delayed', run_at = {MUCH_LATER}", None),
        ("state = 'pending', pending_dependencies = 1", "job ID waits for dependencies that have ended"),
        ("state = 'completed', completed_at = 1", None),
    ],
)
async def test_what_could_go_on_is_seen(url: str, change: str, seen: str | None) -> None:
    queue = euterpe.Queue(url)
    async with queue:
        job = await queue.submit("work", {}, concurrency_key="ada", concurrency_limit=1)
        run(url, f"UPDATE inbox_jobs SET {change}")
        found = [said for said, _ in waiting(url, slots=1)]
    assert found == ([] if seen is None else [seen.replace("ID", job.id)])


LOST_PLACE = {
    "sqlite": "DELETE FROM euterpe_key_fronts",
    "postgres": """WITH gone AS (DELETE FROM euterpe_line RETURNING *)
        INSERT INTO euterpe_key_line (key, queue, type, priority, seq, since, expires_at, most, can_wait, tells)
        SELECT key, queue, type, priority, seq, since, expires_at, 1, can_wait, tells FROM gone""",
}


async def test_a_job_that_nobody_gives_the_free_place_of_its_key_is_seen(url: str) -> None:
    queue = euterpe.Queue(url)
    async with queue:
        await queue.submit("work", {}, concurrency_key="ada", concurrency_limit=1)
        run(url, LOST_PLACE["sqlite" if url.startswith("sqlite") else "postgres"])
        assert [said for said, _ in waiting(url, slots=1)] == ["the key ada has parked jobs and a free slot"]


async def test_a_job_that_waits_for_a_slot_a_key_or_a_dependency_has_a_cause(url: str) -> None:
    queue = euterpe.Queue(url)
    async with queue:
        first = await queue.submit("work", {}, concurrency_key="ada", concurrency_limit=1)
        await queue.submit("work", {}, concurrency_key="ada", concurrency_limit=1)
        await queue.submit("work", {}, depends_on=[first.id])
        await queue.submit("work", {})
        await core_of(queue).store.claim(ClaimRequest(worker_id="w", limit=1))
        assert waiting(url, slots=1) == []
        assert [said for said, _ in waiting(url, slots=2)] == ["jobs are ready and slots are free"]


async def test_an_event_that_nobody_takes_is_seen(url: str) -> None:
    queue = euterpe.Queue(url)
    async with queue:
        job = await queue.submit("work", {}, callback_url="https://example.org/")
        await queue.cancel(job.id)
        assert [said for said, _ in waiting(url, slots=1)] == ["events are due"]
        run(url, "UPDATE job_outbox_events SET state = 'running', lease_expires_at = 1, claim_version = 1")
        ((over, _),) = waiting(url, slots=1)
    assert over.startswith("the lease of event ")


async def test_an_event_waits_for_a_slot_and_for_the_one_before_it(url: str) -> None:
    queue = euterpe.Queue(url)
    async with queue:
        job = await queue.submit("work", {}, callback_url="https://example.org/")
        await queue.cancel(job.id)
        first = "(SELECT min(sequence) FROM job_outbox_events)"
        under_way = f"state = 'running', lease_expires_at = {MUCH_LATER}, claim_version = 1"
        later = f"state = 'retrying', lease_expires_at = NULL, run_at = {MUCH_LATER}"
        for change in (under_way, later):
            run(url, f"UPDATE job_outbox_events SET {change} WHERE sequence = {first}")
            assert waiting(url, slots=1) == []


def test_only_what_lasts_without_a_change_is_told() -> None:
    times = iter([0.0, 1.9, 2.1, 4.0, 4.2])
    waits = Waits(2.0, clock=lambda: next(times))
    for version in (1, 1, 2, 2):
        waits.look([("a", version)])
    assert waits.too_long == []
    waits.look([("a", 2), ("b", 1)])
    assert waits.too_long == ["a for 2.1 s"]
    assert (waits.looks, round(waits.longest_s, 1)) == (5, 2.1)
