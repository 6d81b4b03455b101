"""`GET /jobs?q=`, and how far a page looks."""

from __future__ import annotations

import httpx
import pytest

import euterpe
from euterpe.model.reading.views import SCAN_LIMIT
from tests.conformance.acts import job
from tests.server.plane import Plane
from tests.server.test_jobs_api import submit


async def test_jobs_are_found_by_a_query(client: httpx.AsyncClient, plane: Plane) -> None:
    mine = await submit(client, type="report.render", tags={"team": "a"}, correlation_id="order 7")
    await submit(client, type="mail.send")
    for query in ("type:report.* tag.team:a", '"order 7"', "created:<1h type:report.render", mine["job_id"][:8]):
        page = (await client.get("/jobs", params={"q": query})).json()
        assert [job["job_id"] for job in page["jobs"]] == [mine["job_id"]], query
    assert len((await client.get("/jobs", params={"q": ""})).json()["jobs"]) == 2
    async with plane.client("read", requester="bob") as other:
        assert (await other.get("/jobs", params={"q": mine["job_id"]})).json() == {"jobs": [], "cursor": None}


async def test_a_wrong_query_is_refused_with_its_word(client: httpx.AsyncClient) -> None:
    answer = await client.get("/jobs", params={"q": "type:a stat:failed"})
    assert answer.status_code == 422
    problem = answer.json()
    assert "'stat:failed' at character 8" in problem["detail"]
    assert problem["errors"][0]["pointer"] == "/q" if "errors" in problem else True
    both = await client.get("/jobs", params={"q": "state:failed", "state": "running"})
    assert both.status_code == 422


@pytest.mark.parametrize("asked", ["type=rare", "q=type:rare", "tag=kind:rare&state=scheduled"])
async def test_a_page_looks_at_so_many_jobs_whichever_way_it_is_asked_for(
    client: httpx.AsyncClient, plane: Plane, asked: str
) -> None:
    """A search that finds nothing would otherwise read the whole history."""
    rare = await submit(client, type="rare", tags={"kind": "rare"})
    await plane.store.submit_many([job() for _ in range(SCAN_LIMIT)])
    first = (await client.get(f"/jobs?{asked}")).json()
    assert first["cursor"] is not None, "the first page looked at everything"
    assert first["jobs"] == []
    last = (await client.get(f"/jobs?{asked}&cursor={first['cursor']}")).json()
    assert [found["job_id"] for found in last["jobs"]] == [rare["job_id"]]
    assert last["cursor"] is None


async def test_a_queue_over_http_puts_the_pages_together(client: httpx.AsyncClient, plane: Plane) -> None:
    rare = await submit(client, type="rare")
    await plane.store.submit_many([job() for _ in range(SCAN_LIMIT)])
    async with euterpe.Queue(plane.base_url, token=await plane.key("read")) as queue:
        page = await queue.search(type="rare")
    assert [found.id for found in page.jobs] == [rare["job_id"]]
    assert page.cursor is None
