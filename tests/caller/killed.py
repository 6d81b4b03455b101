"""Workers killed between a handler's own write and its commit: `python -m tests.caller.killed URL --kills 1000`.

One process after the other is forked, works on real jobs, and kills itself with SIGKILL somewhere between the first
write of a handler and its commit. The clock of each is an hour ahead of the one before, so nobody waits for leases. At
the end every job must be completed and stand in the ledger once. Exit code 1: one is doubled or lost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from typing import Any

import asyncpg
import psycopg

from euterpe import Context, Queue
from euterpe.backends.engines import sqlite_path
from euterpe.queue.queue import core_of
from euterpe.stores.sql.postgres.engine import split_url
from tests.worker.inline import AT_ONCE, working

HOUR_US = 3_600_000_000
MOMENTS = ("written", "completed", "committing", "committed")
JOBS_A_LIFE = 3
CONCURRENCY = 4
RUNS_BEFORE_DEATH = 3


class Ledger:
    """The application's own table, where a doubled job would stand twice."""

    def __init__(self, url: str) -> None:
        self.is_postgres = url.startswith("postgres")
        self.dsn, options = split_url(url) if self.is_postgres else (sqlite_path(url), {})
        self.schema = options.get("schema", "public")

    def look(self, sql: str) -> list[Any]:
        if self.is_postgres:
            with psycopg.connect(self.dsn, options=f"-c search_path={self.schema}") as connection:
                cursor = connection.execute(sql.encode())
                return cursor.fetchall() if cursor.description else []
        local = sqlite3.connect(self.dsn)
        try:
            with local:
                return local.execute(sql).fetchall()
        finally:
            local.close()


class Fate:
    """Dies in one of the next runs, at one of the moments; `None` lives."""

    def __init__(self, number: int | None) -> None:
        dice = random.Random(number)
        self.moment = None if number is None else MOMENTS[number % len(MOMENTS)]
        self.left = dice.randrange(RUNS_BEFORE_DEATH) + 1

    def strikes(self, moment: str) -> None:
        if moment == self.moment:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def queue_of(url: str, ledger: Ledger, fate: Fate, lives: int) -> Queue:
    queue = Queue(url, clock=lambda: time.time_ns() // 1000 + lives * HOUR_US)
    insert = "INSERT INTO ledger (job) VALUES ('{}')"

    @queue.job("pay", max_attempts=1000, lifetime="90d", backoff=AT_ONCE)
    async def pay(ctx: Context) -> None:
        connection = await asyncpg.connect(ledger.dsn, server_settings={"search_path": ledger.schema})
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(insert.format(ctx.job_id))
            fate.strikes("written")
            await ctx.complete(connection, lives)
            fate.strikes("completed")
            committing = asyncio.ensure_future(transaction.commit())
            await asyncio.sleep(0)  # The COMMIT is on its way, and its answer is not here.
            fate.strikes("committing")
            await committing
            fate.strikes("committed")
        finally:
            await connection.close()

    @queue.job("pay_in_a_thread", max_attempts=1000, lifetime="90d", backoff=AT_ONCE)
    def pay_in_a_thread(ctx: Context) -> None:
        local = sqlite3.connect(ledger.dsn, isolation_level=None, timeout=30)
        try:
            local.execute("BEGIN IMMEDIATE")
            local.execute(insert.format(ctx.job_id))
            fate.strikes("written")
            ctx.complete(local, lives)
            fate.strikes("completed")
            fate.strikes("committing")
            local.execute("COMMIT")
            fate.strikes("committed")
        finally:
            local.close()

    return queue


async def live(url: str, ledger: Ledger, lives: int, number: int | None) -> None:
    queue = queue_of(url, ledger, Fate(number), lives)
    async with working(queue, concurrency=CONCURRENCY):
        if number is not None:
            await queue.submit_many([("pay" if ledger.is_postgres else "pay_in_a_thread", None)] * JOBS_A_LIFE)
        while await core_of(queue).store.depths():
            await asyncio.sleep(0.02)
            await core_of(queue).store.sweeps.urgent()


def fork(url: str, ledger: Ledger, lives: int, number: int | None) -> int:
    """Returns the signal that ended it, 0 for none."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(live(url, ledger, lives, number))
            code = 0
        except BaseException:  # noqa: BLE001  # the child of a fork must end here, whatever it met
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


async def prepare(url: str) -> None:
    async with Queue(url):
        pass


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--kills", type=int, default=30)
    said = parser.parse_args()
    ledger = Ledger(said.url)
    asyncio.run(prepare(said.url))
    ledger.look("CREATE TABLE ledger (job text NOT NULL)")
    ends: Counter[str] = Counter()
    for number in range(said.kills):
        ended = fork(said.url, ledger, number, number)
        ends[MOMENTS[number % len(MOMENTS)] if ended == signal.SIGKILL else f"code {ended}"] += 1
    last = fork(said.url, ledger, said.kills, None)
    jobs = Counter(row[0] for row in ledger.look("SELECT job FROM ledger"))
    states = dict(ledger.look("SELECT CAST(id AS text), state FROM inbox_jobs"))
    doubled = sum(count > 1 for count in jobs.values())
    lost = sum(state != "completed" for state in states.values()) + len(states.keys() ^ jobs.keys())
    print(f"killed {dict(ends)}; the last one ended with {last}; {len(states)} jobs, {doubled} doubled, {lost} lost")
    return 0 if doubled == lost == last == 0 and len(states) == said.kills * JOBS_A_LIFE else 1


if __name__ == "__main__":
    sys.exit(main())
