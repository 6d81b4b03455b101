"""How long each page takes with a full database: `python -m tests.dashboard.measure --engine sqlite --jobs 1000000`.

Not a test: it makes its own database, asks for every page some times as an admin and as a requester who has next to
nothing, and prints the best, the median and the worst time. What it read at its last run stands in docs/dashboard.md.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import asyncpg

from euterpe.model.submitting.submission import Submission
from tests.dashboard.site import Site, running_site
from tests.plans.history import add_history
from tests.servers import PostgresServer

WAITING = 100_000
BATCH = 1_000
TIMES = 9


async def measure(url: str, jobs: int) -> None:
    async with running_site(url) as site:
        now_us = await site.store.now_us()
    await add_history(url, jobs, now_us, every_table=True)
    async with running_site(url) as site:
        for _ in range(WAITING // BATCH):
            await site.store.submit_many([Submission(type="waiting", queue="busy")] * BATCH)
        if url.startswith("postgres"):
            await vacuum(url)
        own = await site.submit(type="own", requester_id="vesta")
        paths = ["/", "/dashboard/jobs", "/dashboard/jobs?q=state:failed+type:type3", "/dashboard/jobs?q=type:none"]
        paths += [f"/dashboard/jobs/{own}", "/dashboard/failures", "/dashboard/queues", "/dashboard/webhooks"]
        paths += ["/dashboard/operations"]
        await table(site, "admin", [*paths, "/dashboard/bulk?action=replay&q=state:failed"])
        await table(site, "read", paths)


async def vacuum(url: str) -> None:
    """As autovacuum does within its minute."""
    connection = await asyncpg.connect(url)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def table(site: Site, scope: str, paths: list[str]) -> None:
    async with site.visitor(scope) as client:
        for path in paths:
            took: list[float] = []
            cpu: list[float] = []
            for _ in range(TIMES):
                began, worked = time.perf_counter(), time.process_time()
                answer = await client.get(path)
                took.append((time.perf_counter() - began) * 1000)
                cpu.append((time.process_time() - worked) * 1000)
                assert answer.status_code == 200, answer.text
            told = f"best {min(took):6.1f}  median {statistics.median(took):6.1f}  worst {max(took):6.1f} ms"
            told += f"  cpu {statistics.median(cpu):6.1f} ms"
            print(f"{scope:6} {told}  {path}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite")
    options.add_argument("--jobs", type=int, default=1_000_000)
    said = options.parse_args()
    with ExitStack() as stack:
        if said.engine == "postgres":
            url = stack.enter_context(PostgresServer({"shared_buffers": "512MB"})).url
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        asyncio.run(measure(url, said.jobs))


if __name__ == "__main__":
    main()
