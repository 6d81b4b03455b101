"""JSON that is nested too deeply is refused at the submit; a stored row that cannot be read is shown as unreadable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from euterpe import InvalidInput, Queue
from euterpe.model.json_depth import MOST_LEVELS, is_too_deep
from tests.cli.commands import Shell, clean_environment
from tests.dashboard.site import running_site
from tests.server.plane import Plane, running_plane

DEEPER_THAN_A_READER_CAN = 990


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b'"]]["' + b"}" * levels


def lists(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [1, MOST_LEVELS, MOST_LEVELS + 1, 5_000])
def test_levels_are_counted_outside_of_texts(levels: int) -> None:
    assert is_too_deep(nested(levels)) is (levels > MOST_LEVELS)
    assert not is_too_deep(b'["' + b"[" * 5_000 + b'\\"' + b"{" * 5_000 + b'"]')
    assert not is_too_deep(b"[" + b",".join([b"[[1]]"] * 5_000) + b"]")


async def test_a_deep_payload_is_refused_in_python(sqlite_url: str) -> None:
    q = Queue(sqlite_url)

    @q.job
    async def deep(value: Any) -> None: ...

    async with q:
        await deep.submit(value=lists(MOST_LEVELS - 1))
        for submit in (
            lambda: deep.submit(value=lists(MOST_LEVELS)),
            lambda: q.submit("other", {"value": lists(MOST_LEVELS)}),
            lambda: q.submit_many([deep.with_args(value=[]), deep.with_args(value=lists(MOST_LEVELS))]),
        ):
            with pytest.raises(InvalidInput, match="nested deeper than 500 levels"):
                await submit()
        assert len((await q.search()).jobs) == 1


async def test_a_deep_payload_is_refused_over_http(sqlite_url: str) -> None:
    async with running_plane(sqlite_url) as plane, plane.client() as client:
        answers = [
            await client.post("/jobs", content=b'{"type":"t","payload":%s}' % nested(levels))
            for levels in (MOST_LEVELS, MOST_LEVELS + 1, 2_000)
        ]
        assert [answer.status_code for answer in answers] == [202, 422, 400]
        assert answers[1].json()["pointer"] == "/payload"
        assert (await client.get("/jobs")).status_code == 200


async def _stored_too_deep(plane: Plane, client: httpx.AsyncClient, path: str) -> str:
    job_id: str = (await client.post("/jobs", json={"type": "t"})).json()["job_id"]
    await client.post("/jobs", json={"type": "beside"})
    connection = apsw.Connection(path)
    connection.execute("UPDATE inbox_jobs SET payload = ? WHERE id = ?", (nested(DEEPER_THAN_A_READER_CAN), job_id))
    connection.close()
    assert plane.store is not None
    return job_id


async def test_a_row_that_cannot_be_read_is_shown_as_unreadable(sqlite_url: str, tmp_path: Path) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    async with running_plane(sqlite_url) as plane, plane.client() as client:
        job_id = await _stored_too_deep(plane, client, path)
        page = await client.get("/jobs")
        assert page.status_code == 200
        assert len(page.json()["jobs"]) == 2
        shown = (await client.get(f"/jobs/{job_id}")).json()["payload"]
        assert shown["unreadable"] == "nested deeper than 500 levels"
    async with running_site(sqlite_url) as site, site.visitor("read") as visitor:
        looked = await visitor.get(f"/dashboard/jobs/{job_id}")
        assert (looked.status_code, "cannot be read as JSON" in looked.text) == (200, True)
        assert (await visitor.get("/dashboard/jobs")).status_code == 200
    q = Queue(sqlite_url)
    async with q:
        assert (await q.get(job_id)).payload == nested(DEEPER_THAN_A_READER_CAN)
        assert len((await q.search()).jobs) == 2
    shell = Shell(tmp_path, clean_environment(ENGINE_URL=sqlite_url))
    assert "cannot be read as JSON" in await asyncio.to_thread(shell.ok, "jobs", "show", job_id)
    assert job_id in await asyncio.to_thread(shell.ok, "jobs", "list", "--json")
