"""A database that has answered a role and goes away during its start is waited for, as it would be a moment later."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.cli.commands import Shell, clean_environment
from tests.cli.conftest import Start
from tests.faults.proxy import Cut, proxied

RIGHTS = "the database is read-only"
"""Stands in the statement that looks for lacking rights."""
ROLES = {"worker": ("worker", "app:queue"), "all": ("--role=all", "--app", "app:queue"), "outbox": ("--role=outbox",)}


@pytest.mark.parametrize(
    ("role", "at"),
    [("worker", 1), ("worker", 2), ("all", 1), ("all", 2), ("outbox", 1)],
    ids=lambda value: str(value),
)
async def test_a_connection_that_is_cut_during_a_start_does_not_end_the_process(
    fresh_postgres_url: str, folder: Path, start: Start, role: str, at: int
) -> None:
    """The first look at the rights is the role's, the second its worker's."""
    async with proxied(fresh_postgres_url) as (proxy, url):
        trap = proxy.cut(RIGHTS, Cut.BEFORE, at)
        shell = Shell(folder, clean_environment(ENGINE_URL=url))
        running = start(shell, *ROLES[role])
        await asyncio.to_thread(running.until_said, '"started"')
        async with asyncio.timeout(20):
            await trap.sprung.wait()
        if role != "outbox":
            await asyncio.to_thread(_runs_a_job, Shell(folder, clean_environment(ENGINE_URL=fresh_postgres_url)))
        running.tell(signal.SIGTERM)
        assert await asyncio.to_thread(running.ended) == 0
        assert not any("a part of the system failed" in line for line in running.err)


async def test_a_start_that_waits_for_a_lost_database_obeys_a_signal(
    fresh_postgres_url: str, folder: Path, start: Start
) -> None:
    async with proxied(fresh_postgres_url) as (proxy, url):
        trap = proxy.cut(RIGHTS, Cut.BEFORE)
        running = start(Shell(folder, clean_environment(ENGINE_URL=url)), "--role=outbox")
        async with asyncio.timeout(20):
            await trap.sprung.wait()
        await proxy.close()
        await asyncio.to_thread(running.until_said, "database unavailable: the start is retrying")
        running.tell(signal.SIGTERM)
        assert await asyncio.to_thread(running.ended) == 0
        assert not any('"started"' in line for line in running.err)


def _runs_a_job(shell: Shell) -> None:
    job = shell.json("submit", "greet", json.dumps({"name": "you"}), "--wait", "30s")
    assert job["state"] == "completed"
