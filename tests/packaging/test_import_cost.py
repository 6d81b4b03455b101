"""What a user does not use is not loaded. Counted in modules: milliseconds depend on the machine.

The bounds are what was there when they were set, and a little room. A new module of a room that is loaded anyway may
raise them; a whole room that comes along must not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

IMPORT = "import euterpe; euterpe.Queue"
MAKE = "import euterpe; queue = euterpe.Queue({url!r})"
SUBMIT = f"""
import asyncio
{MAKE}
async def main():
    async with queue:
        await queue.submit("report.render", {{{{"report_id": 7}}}})
asyncio.run(main())
"""
WORK = f"""
import asyncio
{MAKE}
@queue.job("report.render")
async def render(ctx, report_id: int) -> None:
    done.set()
async def main():
    global done
    done = asyncio.Event()
    async with queue, queue.worker(concurrency=1):
        await queue.submit("report.render", {{{{"report_id": 7}}}})
        await asyncio.wait_for(done.wait(), 60)
asyncio.run(main())
"""
ROOMS = (
    "cli", "config", "crypto", "dashboard", "django", "egress", "fastapi", "producer", "server", "service", "testing",
    "transcode", "tui", "webhooks", "wire", "stores.redis_lists", "stores.remote", "stores.sql.caller",
    "stores.sql.postgres", "stores.sql.worker_protocol", "webhook.dispatcher", "worker.execution.processes",
)  # fmt: skip
"""Nobody who submits to SQLite, or works on it without webhooks, has any use for these."""
OF_WORKERS = (
    "queue.run",
    "webhook",
    "worker.attempts",
    "worker.loop",
    "worker.sweeper",
    "stores.sql.maintenance.sweeps",
)
PACKAGES = frozenset(
    [
        "aiohttp",
        "asyncpg",
        "click",
        "cryptography",
        "django",
        "fastapi",
        "httpx",
        "opentelemetry",
        "pydantic",
        "redis",
        "rich",
        "sqlalchemy",
        "starlette",
        "textual",
        "uvicorn",
        "yaml",
    ]
)


def loaded(code: str) -> list[str]:
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    modules: list[str] = json.loads(done.stdout)
    return modules


@pytest.mark.parametrize(
    ("code", "most", "unused"),
    [
        pytest.param(IMPORT, 104, (*ROOMS, *OF_WORKERS, "stores.sql.store"), id="importing Queue"),
        pytest.param(MAKE, 160, (*ROOMS, *OF_WORKERS), id="making a queue"),
        pytest.param(SUBMIT, 160, (*ROOMS, *OF_WORKERS), id="submitting a job"),
        pytest.param(WORK, 224, ROOMS, id="running a job"),
    ],
)
def test_only_what_is_used_is_loaded(code: str, most: int, unused: tuple[str, ...], tmp_path: Path) -> None:
    modules = loaded(code.format(url=f"sqlite:///{tmp_path}/jobs.db"))
    ours = [name for name in modules if name.partition(".")[0] == "euterpe"]
    assert not PACKAGES & {name.partition(".")[0] for name in modules}
    assert [name for name in unused if f"euterpe.{name}" in ours] == []
    assert len(ours) <= most, f"{len(ours)} modules of Euterpe were loaded"


def test_a_lease_keeper_loads_next_to_nothing_until_a_job_lasts() -> None:
    modules = loaded("import euterpe.lease_keeper.__main__")
    assert not {"asyncio", "msgspec", "tempfile"} & set(modules)
    assert not [name for name in modules if name.startswith(("euterpe.model", "euterpe.stores"))]


def test_who_counts_jobs_loads_what_writes_the_figures_out_only_for_a_scrape() -> None:
    count = "from euterpe.observe.metrics import Metrics; metrics = Metrics(); metrics.claimed('default', [0.1])"
    assert "prometheus_client" not in loaded(count)
    assert "prometheus_client" in loaded(f"{count}; metrics.render()")
