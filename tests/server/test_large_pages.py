"""A page costs what it shows: what is beyond its bytes is not even read."""

from __future__ import annotations

import asyncio

import httpx

from euterpe.model.reading.views import PAGE_BYTES, Search
from euterpe.model.submitting.submission import Submission
from tests.server.plane import Plane, anonymous, claim_one, lease_of, plane_process, running_plane
from tests.server.rawclient import memory_mb

LARGE = 900_000


async def test_a_page_of_large_jobs_is_shorter_and_its_cursor_goes_on(plane: Plane, client: httpx.AsyncClient) -> None:
    ids = [r.job_id for r in await plane.store.submit_many([large() for _ in range(21)])]
    seen: list[str] = []
    cursor: str | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        page = (await client.get("/jobs", params={"limit": 200} | ({"cursor": cursor} if cursor else {}))).json()
        assert sum(len(job["payload"]) for job in page["jobs"]) < PAGE_BYTES + LARGE
        seen += [job["job_id"] for job in page["jobs"]]
        cursor, pages = page["cursor"], pages + 1
    assert seen == ids[::-1]
    assert pages == 3


def large() -> Submission:
    return Submission(type="t", requester_id="vesta", payload=b'"' + b"x" * LARGE + b'"')


async def test_results_and_checkpoints_count_too(plane: Plane, client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await client.post("/jobs", json={"type": "t"})
        job = await claim_one(client)
        await client.post("/internal/worker/complete", json=lease_of(job) | {"result": "x" * 10_000})
    page = await plane.store.search(Search(max_bytes=15_000))
    assert (len(page.jobs), page.cursor is not None) == (2, True)
    rest = await plane.store.search(Search(max_bytes=15_000, cursor=page.cursor))
    assert (len(rest.jobs), rest.cursor) == (1, None)
    assert [job.result for job in page.jobs] == [b'"' + b"x" * 10_000 + b'"'] * 2


async def test_one_job_over_the_limit_of_a_page_is_a_page(plane: Plane) -> None:
    await plane.store.submit_many([large(), large()])
    page = await plane.store.search(Search(max_bytes=1))
    assert (len(page.jobs), page.cursor is not None) == (1, True)
    assert (await plane.store.get(page.jobs[0].id)) == page.jobs[0]


def test_a_page_does_not_load_what_it_does_not_show(sqlite_url: str) -> None:
    async def fill() -> str:
        async with running_plane(sqlite_url) as plane:
            for _ in range(15):
                await plane.store.submit_many([large() for _ in range(10)])
            return await plane.key("read")

    async def look(base_url: str, key: str) -> int:
        async with anonymous(base_url) as client:
            answer = await client.get("/jobs", params={"limit": 200}, headers={"authorization": f"Bearer {key}"})
            return len(answer.json()["jobs"])

    key = asyncio.run(fill())
    with plane_process(sqlite_url) as process:
        before = memory_mb(process.process.pid)
        assert 0 < asyncio.run(look(process.base_url, key)) < 15
        assert memory_mb(process.process.pid) - before < 80
