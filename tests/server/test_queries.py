"""`GET /jobs?q=`."""

from __future__ import annotations

import httpx

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
