"""A database of an earlier release, with jobs in every state, goes on under this one.

The dumps were made by the release whose newest migration was 12. They are never made anew: that is their point.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

import euterpe
from euterpe.queue.queue import core_of

HERE = Path(__file__).parent
CENTURY_US = 100 * 365 * 86_400 * 1_000_000
NOT_EXPIRED = (
    f"UPDATE {{0}}inbox_jobs SET expires_at = expires_at + {CENTURY_US} WHERE completed_at IS NULL",
    f"UPDATE {{0}}idempotency_keys SET expires_at = expires_at + {CENTURY_US}",
)


def load_sqlite(tmp_path: Path) -> str:
    file = tmp_path / "jobs.db"
    with sqlite3.connect(file) as connection:
        connection.executescript((HERE / "sqlite_0012.sql").read_text())
        connection.execute("PRAGMA journal_mode=WAL")
        for statement in NOT_EXPIRED:
            connection.execute(statement.format(""))
    connection.close()
    return f"sqlite:///{file}"


def load_postgres(url: str) -> str:
    (schema,) = parse_qs(urlsplit(url).query)["schema"]
    dump = (HERE / "postgres_0012.sql").read_text().replace("public.", f"{schema}.")
    dump = re.sub(r"^(CREATE SCHEMA public;|COMMENT ON SCHEMA .*)$", "", dump, flags=re.MULTILINE)
    with psycopg.connect(url.partition("?schema=")[0], autocommit=True) as connection:
        connection.execute(dump)
        for statement in NOT_EXPIRED:
            connection.execute(statement.format(f"{schema}."))
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def yesterday(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return load_sqlite(tmp_path)
    return load_postgres(request.getfixturevalue("bare_postgres_url"))


async def test_yesterdays_jobs_run_and_yesterdays_ends_are_kept(yesterday: str) -> None:
    queue = euterpe.Queue(yesterday)
    greeted: list[str] = []
    all_four = asyncio.Event()

    @queue.job("greet")
    async def greet(name: str) -> str:
        greeted.append(name)
        if len(greeted) == 4:
            all_four.set()
        return name

    @queue.job("dies", max_attempts=1)
    async def dies(n: int) -> int:
        return n

    async with queue:
        (done,) = (await queue.search(state="completed")).jobs
        assert (done.type, done.result) == ("done", {"n": 1})
        (dead,) = (await queue.search(state="dead_letter")).jobs
        assert dead.error is not None
        assert (dead.error.code, dead.error.message) == ("temporary", "upstream is down")
        assert [attempt.outcome for attempt in await queue.attempts(done.id)] == ["completed"]
        assert await core_of(queue).store.paused() == [("type", "paused")]
        same = await greet.options(idempotency_key="hello", tags={"team": "a"}, priority="high", callback_events="all",
                                   callback_url="https://receiver.example/hook").submit(name="ada")  # fmt: skip
        assert (await queue.get(same.id)).tags == {"team": "a"}
        async with queue.worker(queues=["default", "lost"], webhooks=False, poll="50ms"), asyncio.timeout(30):
            await all_four.wait()
            again = await queue.retry(dead.id)
            assert await again.result(timeout="20s") == 2
            for job in (await queue.search(type="greet")).jobs:
                while not (await queue.get(job.id)).is_ended:  # noqa: ASYNC110  # the fixture's jobs have no handles
                    await asyncio.sleep(0.02)
    assert greeted.index("ada") < greeted.index("after")
    assert sorted(greeted) == ["ada", "after", "later", "taken"]
