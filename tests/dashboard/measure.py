"""How long each page takes with a full database: `python -m tests.dashboard.measure --engine sqlite --jobs 1000000`.

Not a test: it makes its own database, asks for every page and look-up many times as an admin and as a requester who has
next to nothing, and prints the median, the 95th percentile and the worst time that a client waits, and the processor
time of this process (on SQLite that is client, server and database; on Postgres client and server). What is over
100 ms is marked. What it read at its last run stands in docs/dashboard.md. `--fill` only fills the database of `--url`,
`--measure` only measures it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus

import asyncpg
import httpx

from euterpe.model.reading.views import Search
from euterpe.model.submitting.submission import Submission
from tests.dashboard.site import Site, running_site
from tests.plans.history import HOUR_US, add_history
from tests.servers import PostgresServer

WAITING = 100_000
BATCH = 1_000
TIMES = 20
SLOW_MS: Final = 100.0
QUERIES: Final = (
    "",
    "state:failed",
    "state:failed type:type3",
    "state:completed type:type3",
    "type:type3",
    "type:typ*",
    "type:none",
    "queue:busy",
    "tag.team:none",
    "error:timeout",
    "error:nothing-like-this",
    "state:dead_letter error:nothing-like-this",
    "created:>30m",
    "created:<5m state:completed",
    "state:scheduled queue:busy",
    "state:running",
    "no-such-correlation-id",
    "history",
)
"""Every kind of word of the query language; those that find nothing look the longest."""
COUNTS: Final = tuple(f"/jobs/count?requester=*&q={q}" for q in ("state:failed", "type:type3", "type:none"))
LISTS: Final = ("/jobs?requester=*", "/jobs?requester=*&q=type:none")


async def fill(url: str, jobs: int, *, every_table: bool) -> None:
    """Ended jobs of the last hour, a thirtieth of them failed, and some that wait."""
    async with running_site(url) as site:
        now_us = await site.store.now_us()
    began = time.perf_counter()
    await add_history(url, jobs, now_us, every_table=every_table, step_us=max(1, HOUR_US // jobs))
    async with running_site(url) as site:
        for _ in range(WAITING // BATCH):
            await site.store.submit_many([Submission(type="waiting", queue="busy")] * BATCH)
        if url.startswith("postgres"):
            await vacuum(url)
    print(f"filled with {jobs:,} jobs in {time.perf_counter() - began:.0f} s", flush=True)


async def measure(url: str) -> None:
    async with running_site(url) as site:
        own = await site.submit(type="own", requester_id="vesta")
        waiting = await site.submit(type="waiting", queue="busy")
        paths = ["/", *(f"/dashboard/jobs?q={quote_plus(query)}" for query in QUERIES)]
        paths += [f"/dashboard/jobs/{own}", f"/dashboard/jobs/{waiting}", "/dashboard/failures", "/dashboard/queues"]
        paths += ["/dashboard/webhooks", "/dashboard/operations", "/dashboard/failures/export"]
        acts = [f"/dashboard/bulk?action=replay&q={q}" for q in ("state:failed", "type:type3", "type:none")]
        await table(site, "admin", [*paths, *await second_page(site), *acts])
        await table(site, "read", paths)
        by_id = [f"/jobs/{waiting}?requester=*", f"/jobs/{waiting}/why?requester=*"]
        await api(site, [*by_id, "/failures?requester=*", "/stats?requester=*", "/stats", "/workers", *COUNTS, *LISTS])


async def second_page(site: Site) -> list[str]:
    found = await site.store.search(Search(limit=50))
    return [f"/dashboard/jobs?cursor={found.cursor}"] if found.cursor else []


async def api(site: Site, paths: list[str]) -> None:
    key = await site.key()
    async with site.browser() as client:
        client.headers["authorization"] = f"Bearer {key}"
        for path in paths:
            await asked(client, "api", path)


async def vacuum(url: str) -> None:
    """As autovacuum does within its minute."""
    connection = await asyncpg.connect(url)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def table(site: Site, scope: str, paths: list[str]) -> None:
    async with site.visitor(scope) as client:
        for path in paths:
            await asked(client, scope, path)


async def asked(client: httpx.AsyncClient, scope: str, path: str) -> None:
    took: list[float] = []
    await client.get(path)
    cpu_began = time.process_time()
    for _ in range(TIMES):
        began = time.perf_counter()
        answer = await client.get(path)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.text
    cpu = (time.process_time() - cpu_began) * 1000 / TIMES
    p50, p95 = statistics.median(took), statistics.quantiles(took, n=20)[-1]
    slow = "  SLOW" if p95 > SLOW_MS else ""
    print(
        f"{scope:6} p50 {p50:7.1f}  p95 {p95:7.1f}  worst {max(took):7.1f}  cpu {cpu:6.1f} ms  {path}{slow}", flush=True
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite")
    options.add_argument("--url", help="of a database that is there, instead of a new one")
    options.add_argument("--jobs", type=int, default=1_000_000)
    options.add_argument("--jobs-alone", action="store_true", help="no webhook events, keys, edges and tombstones")
    options.add_argument("--fill", action="store_true", help="only fill")
    options.add_argument("--measure", action="store_true", help="only measure what is filled")
    said = options.parse_args()
    with ExitStack() as stack:
        url = said.url
        if url is None and said.engine == "postgres":
            url = stack.enter_context(PostgresServer({"shared_buffers": "512MB"})).url
        elif url is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        if not said.measure:
            asyncio.run(fill(url, said.jobs, every_table=not said.jobs_alone))
        if not said.fill:
            asyncio.run(measure(url))


if __name__ == "__main__":
    main()
