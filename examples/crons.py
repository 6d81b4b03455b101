"""Crons as data: what workers declared, and a backfill of missed days. `.venv/bin/python examples/crons.py`"""

import asyncio
import tempfile
from datetime import UTC, datetime

import euterpe

queue = euterpe.Queue(f"sqlite:///{tempfile.mkdtemp()}/jobs.db")


@queue.cron("0 3 * * *", type="report.nightly", name="reports", missed="once")
async def nightly() -> None: ...


async def main() -> None:
    async with queue, queue.worker():
        await asyncio.sleep(0.5)  # The worker declares them when it starts.
        for cron in await queue.crons.list():
            print(f"{cron.name} {cron.expression} next at {cron.next_tick:%H:%M}")
        days = {"since": datetime(2026, 11, 1, tzinfo=UTC), "until": datetime(2026, 11, 4, tzinfo=UTC)}
        for word in ("backfill", "again"):
            jobs = await queue.crons.run("report.nightly:reports", **days)
            print(f"{word}: {sum(not job.replayed for job in jobs)} new")


if __name__ == "__main__":
    asyncio.run(main())
