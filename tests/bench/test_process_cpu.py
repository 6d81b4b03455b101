"""The CPU time of a server whose processes come and go: each of them is counted, and only once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from bench.harness.process_cpu import tree_cpu_s
from bench.harness.stores import Stores
from tests.patience import PATIENCE_S
from tests.servers import PostgresServer

WORK = "SELECT count(md5(n::text)) FROM generate_series(1, 1500000) AS n"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Not the session's: others work there."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def connection(server: PostgresServer) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(server.url)
    yield connection
    connection.terminate()


def end_after(method: str, reader: int, backend: psutil.Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend ends, and is gone, as soon as this method of psutil was called for this process."""
    original: Callable[..., Any] = getattr(psutil.Process, method)

    def read_and_end(process: psutil.Process, *args: Any, **options: Any) -> Any:
        found = original(process, *args, **options)
        if process.pid == reader and backend.is_running():
            monkeypatch.undo()
            backend.terminate()
            backend.wait(PATIENCE_S)
        return found

    monkeypatch.setattr(psutil.Process, method, read_and_end)


@pytest.mark.parametrize("moment", ["the server was read", "the children were listed", "the backend was read"])
async def test_a_backend_that_ends_during_the_reading_is_counted_once(
    moment: str,
    server: PostgresServer,
    connection: asyncpg.Connection[asyncpg.Record],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = Stores(server, None, tmp_path)
    backend = psutil.Process(connection.get_server_pid())
    before, own_before_s = await stores.postgres_work(), tree_cpu_s(backend)
    await connection.fetchval("SET max_parallel_workers_per_gather = 0")
    await connection.fetchval(WORK)
    own_s = tree_cpu_s(backend) - own_before_s

    match moment:
        case "the server was read":
            end_after("cpu_times", server.pid, backend, monkeypatch)
        case "the children were listed":
            end_after("children", server.pid, backend, monkeypatch)
        case _:
            end_after("cpu_times", backend.pid, backend, monkeypatch)
    spent_s = (await stores.postgres_work()).since(before).cpu_s

    assert not backend.is_running()
    assert 0.8 * own_s < spent_s < 1.6 * own_s


def test_the_time_of_a_process_that_has_ended_is_not_waited_for() -> None:
    process = psutil.Popen(["true"])
    process.wait(PATIENCE_S)

    with pytest.raises(psutil.NoSuchProcess):
        tree_cpu_s(process)
