"""A control plane for tests: on the test's own loop with a real port, or as a process that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from euterpe.backends.engines import connect
from euterpe.ports import Clock, Telemetry, Trace
from euterpe.server.app import ControlPlane, create_app
from euterpe.server.http.connections import ConnectionLimits, OpenConnections
from euterpe.server.http.limits import Limits
from euterpe.server.http.uvicorn_server import serve
from euterpe.server.routes.system import Check
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.stores.sql.store import SqlStore
from tests.plain_http import NO_CERTIFICATES
from tests.sql_stores import sql

ROOT = Path(__file__).parents[2]
METRICS = b"# HELP up Whether it is.\nup 1\n"


@dataclass(slots=True)
class Plane:
    """A running control plane, its store, and clients for it."""

    app: ControlPlane
    store: SqlStore
    keys: ApiKeys
    port: int
    connections: OpenConnections

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def key(self, *scopes: str, requester: str = "vesta") -> str:
        return (await self.keys.create_key(requester, scopes or ("submit", "read", "worker"))).key

    @asynccontextmanager
    async def client(self, *scopes: str, requester: str = "vesta") -> AsyncIterator[httpx.AsyncClient]:
        key = await self.key(*scopes, requester=requester)
        async with anonymous(self.base_url) as client:
            client.headers["authorization"] = f"Bearer {key}"
            yield client


def anonymous(base_url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=base_url, timeout=30, trust_env=False, verify=NO_CERTIFICATES)


@asynccontextmanager
async def running_plane(
    url: str,
    limits: Limits | None = None,
    readiness: dict[str, Check] | None = None,
    clock: Clock | None = None,
    transport: str | None = None,
    connections: ConnectionLimits | None = None,
    trace: Trace | None = None,
    telemetry: Telemetry | None = None,
    **serving_options: Any,
) -> AsyncIterator[Plane]:
    backend = connect(url, clock=clock, wakeups_url=transport)
    await backend.open()
    keys = ApiKeys(sql(backend.store).engine)
    app = create_app(
        backend.store,
        keys,
        limits=limits or Limits(),
        readiness=readiness,
        metrics_render=lambda: ("text/plain; version=0.0.4; charset=utf-8", METRICS),
        trace=trace,
        telemetry=telemetry,
    )
    loop = asyncio.get_running_loop()
    port: asyncio.Future[int] = loop.create_future()
    stop = asyncio.Event()
    opened = OpenConnections(connections or ConnectionLimits())
    serving = loop.create_task(
        serve(
            app,
            port=0,
            stop=stop,
            started=port.set_result,
            grace_s=5,
            connections=opened,
            **serving_options,
        )
    )
    try:
        yield Plane(app, sql(backend.store), keys, await port, opened)
    finally:
        stop.set()
        await serving
        await backend.close()


@dataclass(slots=True)
class PlaneProcess:
    """A control plane in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


@contextmanager
def plane_process(
    url: str, *options: str, port: int = 0, open_files: tuple[int, int] | None = None
) -> Iterator[PlaneProcess]:
    """`open_files`: the soft and the hard limit that the process starts with."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.server", url, "--port", str(port), *options],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=None if open_files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, open_files),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the control plane did not start; its error is above"
        yield PlaneProcess(process, json.loads(line)["port"])
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


async def claim_one(client: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    """A claimed job; the test fails when there is none."""
    ask = {"worker_id": "w-1", "streams": ["default"], "max_wait_ms": 5000} | more
    answer = (await client.post("/internal/worker/claim", json=ask)).json()
    assert answer["claimed"] is True, answer
    job: dict[str, Any] = answer
    return job


def lease_of(job: dict[str, Any], *, worker_id: str = "w-1") -> dict[str, Any]:
    """The fields that complete and fail repeat."""
    return {
        "worker_id": worker_id,
        "job_id": job["job_id"],
        "attempt_id": job["attempt_id"],
        "lease_token": job["lease_token"],
        "stream": job["stream"]["name"],
        "message_id": job["stream"]["message_id"],
    }


def is_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true")
