"""A network that swallows every packet does not keep a process that was told to stop.

Everything that it still waits for shares one deadline: the last settles, the lease keeper, webhooks, sweeps, the
listener and the connections.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from pathlib import Path

import pytest

from euterpe.queue.queue import Queue
from tests.cli.commands import Shell, clean_environment
from tests.faults.proxy import proxied
from tests.patience import in_time
from tests.worker.floor import Floor, until
from tests.worker.stalls import has_ended, worked_s

GRACE_S = 1.0
LONG_GRACE_S = 300.0
MOST_S = 5.0
"""What it may sleep and wait for others beyond the grace time; about 2 s. Its turn on a busy core is not counted."""
COMMANDS = {"worker": ("worker", "app:queue"), "all": ("--role=all", "--app", "app:queue")}


@pytest.mark.parametrize("told", ["once", "twice"])
async def test_sigterm_in_a_dead_network_ends_the_worker_soon_after_its_grace_time(
    told: str, fresh_postgres_url: str, tmp_path: Path
) -> None:
    grace_s = GRACE_S if told == "once" else LONG_GRACE_S
    async with Queue(fresh_postgres_url) as client, proxied(fresh_postgres_url) as (proxy, through):
        floor = Floor(through, tmp_path)
        try:
            worker = await floor.start(concurrency=2, grace=f"{grace_s}s").working()
            await client.submit("gated", {"gate": "never"})
            await floor.noted("begun", count=1)
            proxy.freeze()
            worker.signal(signal.SIGTERM)
            told_at = time.monotonic() - worked_s(worker.pid)
            await until(lambda: worker.said("shutting down"), "the worker says that it stops")
            if told == "twice":
                worker.signal(signal.SIGTERM)
                grace_s = 0.0
            await until(lambda: has_ended(worker.pid), "the worker ends")
            waited_s = time.monotonic() - told_at - worked_s(worker.pid)
            assert await worker.ended() == 0
            given_up = worker.said("could not be settled in time")
        finally:
            floor.dismiss()
    print(f"waited {waited_s - grace_s:.1f} s longer than its grace time")
    in_time(waited_s, grace_s + MOST_S, "the dead network kept it")
    assert [line["msg"].split()[0] for line in given_up] == ["1"], "one line says how many jobs were not settled"


@pytest.mark.parametrize("told", ["once", "twice"])
@pytest.mark.parametrize("role", COMMANDS)
async def test_sigterm_in_a_dead_network_ends_every_role_soon_after_the_grace_time(
    role: str, told: str, fresh_postgres_url: str, tmp_path: Path
) -> None:
    grace_s = GRACE_S if told == "once" else LONG_GRACE_S
    shutil.copy(Path(__file__).parents[1] / "cli" / "app.py", tmp_path / "app.py")
    async with Queue(fresh_postgres_url) as client, proxied(fresh_postgres_url) as (proxy, through):
        shell = Shell(tmp_path, clean_environment(ENGINE_URL=through, WORKER_GRACE=f"{grace_s:.0f}s"))
        running = shell.background(*COMMANDS[role])
        try:
            await asyncio.to_thread(running.until_said, '"msg":"started"')
            await client.submit("linger")
            await until((tmp_path / "begun").exists, "the job has begun")
            proxy.freeze()
            running.tell(signal.SIGTERM)
            told_at = time.monotonic() - worked_s(running.process.pid)
            await asyncio.to_thread(running.until_said, "shutting down: 1 running jobs")
            if told == "twice":
                running.tell(signal.SIGTERM)
                grace_s = 0.0
            await until(lambda: has_ended(running.process.pid), "the role ends")
            waited_s = time.monotonic() - told_at - worked_s(running.process.pid)
            assert await asyncio.to_thread(running.ended) == 0
        finally:
            await asyncio.to_thread(running.close)
    print(f"waited {waited_s - grace_s:.1f} s longer than its grace time")
    in_time(waited_s, grace_s + MOST_S, "the dead network kept it")
