"""A page costs what it shows: what is beyond its bytes is not even read."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx

from euterpe.model.reading.views import PAGE_BYTES, Search
from euterpe.model.submitting.submission import Submission
from euterpe.server.http.limits import Limits
from tests.server.plane import Plane, anonymous, claim_one, lease_of, plane_process, running_plane
from tests.server.rawclient import LOCAL, connected, memory_mb

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


def test_answers_that_nobody_reads_do_not_fill_the_memory(sqlite_url: str) -> None:
    """60 pages of 8 MB. Without a bound they took about 500 MB."""

    async def fill() -> tuple[str, str]:
        async with running_plane(sqlite_url) as plane:
            await plane.store.submit_many([large() for _ in range(9)])
            return await plane.key("read"), await plane.key("read", requester="juno")

    async def ask_and_leave_unread(port: int, base_url: str, key: str, other: str) -> list[int]:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(port)) for _ in range(60)]
            head = f"GET /jobs?limit=200 HTTP/1.1\r\nhost: {LOCAL}\r\nauthorization: Bearer {key}\r\n\r\n"
            for client in clients:
                await client.send(head.encode())
            answered = await asyncio.gather(*(client.status() for client in clients))
            async with anonymous(base_url) as beside:
                quick = await beside.get("/jobs", headers={"authorization": f"Bearer {other}"})
                assert (quick.status_code, quick.json()["jobs"]) == (200, []), "another requester is not held up"
            return answered

    key, other = asyncio.run(fill())
    with plane_process(sqlite_url, "--read-turn-wait-s", "3") as process:
        before = memory_mb(process.process.pid)
        answered = asyncio.run(ask_and_leave_unread(process.port, process.base_url, key, other))
        grown_mb = memory_mb(process.process.pid, "VmHWM") - before
    print(f"{grown_mb:.0f} MB more at most")
    assert (answered.count(200), answered.count(429)) == (4, 56)
    assert grown_mb < 150, f"{grown_mb:.0f} MB more"


async def test_a_read_that_waited_for_its_turn_is_answered(sqlite_url: str) -> None:
    async with running_plane(sqlite_url, Limits(unread_answers=1)) as plane, plane.client("read") as client:
        await plane.store.submit_many([large() for _ in range(3)])
        pages = await asyncio.gather(*(client.get("/jobs") for _ in range(12)))
        assert [len(page.json()["jobs"]) for page in pages] == [3] * 12
