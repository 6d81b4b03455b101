"""The fixtures of the pytest plugin, and a queue under test on the user's own Postgres."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

import euterpe
from euterpe import testing
from euterpe.queue.queue import core_of

SHOP = """
import euterpe
queue = euterpe.Queue("postgresql://nobody@nowhere.invalid/shop")

@queue.job("mail.welcome")
def welcome(to: str) -> str:
    return f"welcome {to}"

async def sign_up(to: str) -> None:
    await welcome.submit(to=to)
"""
TESTS = """
from euterpe import testing
from euterpe.queue.queue import core_of
from shop import queue, sign_up, welcome

async def test_async(euterpe_queue):
    assert euterpe_queue is queue
    await sign_up("ada")
    testing.assert_submitted(queue, "mail.welcome", to="ada")
    (job,) = await testing.drain(queue)
    assert job.result == "welcome ada"

async def test_each_test_begins_empty(euterpe_queue):
    testing.assert_not_submitted(queue)

def test_sync(euterpe_sync_queue):
    queue.sync.submit(welcome.with_args(to="bob"))
    testing.assert_submitted(queue, welcome, to="bob")
"""
LAZY = """
import sys
def test_nothing_of_euterpe_is_loaded():
    loaded = [name for name in sys.modules if name.startswith("euterpe.") and name != "euterpe.pytest_plugin"]
    assert loaded == []
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", *arguments]
    return subprocess.run(command, cwd=folder, env=environ, text=True, capture_output=True, timeout=100, check=False)


def test_the_fixtures_put_the_users_queue_on_trial(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = strict\neuterpe_queue = shop:queue\npythonpath = .\n"
    )
    (tmp_path / "conftest.py").write_text("import pytest\npytestmark = pytest.mark.asyncio\n")
    ran = run_pytest(tmp_path, "-o", "asyncio_mode=auto")
    assert "3 passed" in ran.stdout, ran.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\npythonpath = .\n")
    ran = run_pytest(tmp_path, "-k", "sync")
    assert 'set euterpe_queue = "module:name"' in ran.stdout


def test_a_run_of_pytest_that_uses_no_queue_pays_for_none(tmp_path: Path) -> None:
    (tmp_path / "test_lazy.py").write_text(LAZY)
    ran = run_pytest(tmp_path)
    assert "1 passed" in ran.stdout, ran.stdout


async def test_code_with_its_own_transaction_is_tested_on_the_users_own_postgres(postgres_url: str) -> None:
    queue = euterpe.Queue("postgresql://nobody@nowhere.invalid/shop")

    @queue.job("confirm")
    async def confirm(order: int) -> int:
        return order

    users_own = await asyncpg.connect(postgres_url)
    try:
        async with testing.queue(queue, on=postgres_url):
            schema = core_of(queue).backend_url.rpartition("schema=")[2]
            assert schema in await schemas(users_own)
            unfinished = users_own.transaction()
            await unfinished.start()
            await confirm.options(connection=users_own).submit(order=1)
            await unfinished.rollback()
            testing.assert_not_submitted(queue, "confirm")
            async with users_own.transaction():
                await confirm.options(connection=users_own, delay="1h").submit(order=2)
            job = testing.assert_submitted(queue, "confirm", order=2)
            assert job.state == "delayed"
            (done,) = await testing.drain(queue)  # an hour passes, in no time
            assert (done.id, done.result) == (job.id, 2)
        assert schema not in await schemas(users_own)
    finally:
        await users_own.close()


async def schemas(connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    rows = await connection.fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'euterpe_test_%'")
    return [row["nspname"] for row in rows]


@pytest.mark.parametrize("on", ["sqlite:///shop.db", "postgresql://localhost/shop?schema=mine"])
async def test_a_place_that_cannot_be_a_throwaway_is_refused(on: str) -> None:
    with pytest.raises(euterpe.InvalidInput, match="on: "):
        async with testing.queue(euterpe.Queue("sqlite:///a.db"), on=on):
            pass
