"""A control plane counts what workers over HTTP ran, by queue and by type: workers of other languages have no page."""

from __future__ import annotations

from euterpe.model.submitting.submission import Submission
from euterpe.observe.metrics import Metrics
from tests.observe.scraping import samples_of
from tests.server.plane import claim_one, lease_of, running_plane
from tests.server.test_worker_protocol import COMPLETE, FAIL


async def test_attempts_of_foreign_workers_are_counted_by_type_and_outcome(url: str) -> None:
    """Three completions of one type: on Postgres the later ones take the path that reads least."""
    metrics = Metrics({"default"})
    async with running_plane(url, telemetry=metrics) as plane, plane.client() as client:
        for type_ in ("encode", "encode", "encode", "mail", "mail"):
            await plane.store.submit(Submission(type=type_, max_attempts=1))
        for _ in range(3):
            job = await claim_one(client, types=["encode"])
            done = await client.post(COMPLETE, json=lease_of(job) | {"output": {}})
            assert done.status_code == 200, done.text
            again = await client.post(COMPLETE, json=lease_of(job) | {"output": {}})
            assert again.status_code == 200, "a report that comes again counts nothing"
        for category in ("permanent", "temporary"):
            job = await claim_one(client, types=["mail"])
            error = {"message": "no", "category": category}
            assert (await client.post(FAIL, json=lease_of(job) | {"error": error})).status_code == 200
    _, page = metrics.render()
    seen = samples_of(page.decode())
    assert {name: value for name, value in seen.items() if name.startswith("euterpe_attempts_total") and value} == {
        'euterpe_attempts_total{outcome="completed",type="encode"}': 3,
        'euterpe_attempts_total{outcome="permanent",type="mail"}': 1,
        'euterpe_attempts_total{outcome="temporary",type="mail"}': 1,
    }
    assert seen['euterpe_attempt_duration_seconds_count{type="encode"}'] == 3
    assert seen['jobs_completed_total{queue="default"}'] == 3
