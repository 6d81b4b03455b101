"""Claim + complete of no-op jobs over HTTP, from many connections to one control plane process.

    .venv/bin/python -m tests.service.api.measure sqlite:////tmp/x.db --connections 32 --jobs 5000 [--max-jobs 50]

The client is a bare HTTP/1.1 one over asyncio streams, so that it is not the client that is measured. Prints one
JSON line. Jobs are stored beforehand and not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import psutil
import uvloop

from euterpe.compose import connect
from euterpe.model.state import State
from euterpe.model.submission import Submission
from euterpe.store.keys import ApiKeys


class Connection:
    """One keep-alive connection that sends a JSON POST and reads its answer."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = f"Host: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n".encode()

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    def close(self) -> None:
        self._writer.close()

    def send(self, path: str, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self._writer.write(
            b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path.encode(), self._head, len(body), body)
        )

    async def receive(self) -> tuple[int, dict[str, Any]]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        return int(head[9:12]), json.loads(await self._reader.readexactly(length))

    async def post(self, path: str, document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.send(path, document)
        return await self.receive()


async def work(port: int, key: str, name: str, max_jobs: int, latencies_s: list[float]) -> int:
    """Claim and complete until nothing is left; returns how many jobs it did."""
    connection = Connection(port, key)
    await connection.open()
    done = 0
    ask: dict[str, Any] = {"worker_id": name, "streams": ["default"], "max_wait_ms": 300}
    if max_jobs > 1:
        ask["max_jobs"] = max_jobs
    while True:
        started = time.perf_counter()
        status, claimed = await connection.post("/internal/worker/claim", ask)
        assert status == 200, claimed
        if not claimed["claimed"]:
            break
        jobs: Sequence[dict[str, Any]] = claimed["jobs"] if max_jobs > 1 else [claimed]
        for job in jobs:
            report = {k: job[k] for k in ("job_id", "attempt_id", "lease_token", "stream")}
            connection.send("/internal/worker/complete", report | {"worker_id": name, "result": {"ok": True}})
            if max_jobs == 1:
                status, answer = await connection.receive()
                assert status == 200, answer
        if max_jobs > 1:
            for _ in jobs:
                status, answer = await connection.receive()
                assert status == 200, answer
        done += len(jobs)
        latencies_s.append(time.perf_counter() - started)
    connection.close()
    return done


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


async def main(arguments: argparse.Namespace) -> None:
    backend = connect(arguments.url)
    await backend.open()
    key = (await ApiKeys(backend.store.engine).create_key("bench", ["worker"])).key
    payload = json.dumps({"text": "x" * 80}).encode()
    for start in range(0, arguments.jobs, 1000):
        count = min(1000, arguments.jobs - start)
        await backend.store.submit_many([Submission(type="noop", payload=payload) for _ in range(count)])
    server = subprocess.Popen(  # noqa: ASYNC220  # before anything is measured
        [sys.executable, "-m", "tests.service.api.server", arguments.url, "--sweep-s", "60"], stdout=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        latencies_s: list[float] = []
        before_s = cpu_s(server.pid)  # starting up costs about a second of it
        started = time.perf_counter()
        workers = [work(port, key, f"bench-{i}", arguments.max_jobs, latencies_s) for i in range(arguments.connections)]
        done = sum(await asyncio.gather(*workers))
        elapsed_s = time.perf_counter() - started - 0.3  # the last poll of each found nothing and waited this long
        used_s = cpu_s(server.pid) - before_s
    finally:
        server.terminate()
        server.wait(20)
    completed = (await backend.store.stats()).by_state.get(State.COMPLETED, 0)
    await backend.close()
    latencies_s.sort()
    figures = {
        "engine": arguments.url.split(":", 1)[0],
        "connections": arguments.connections,
        "max_jobs": arguments.max_jobs,
        "jobs": done,
        "completed_in_store": completed,
        "jobs_per_s": round(done / elapsed_s),
        # On a shared machine this says more than the rate: what the control plane itself spends on a job.
        "server_cpu_us_per_job": round(1_000_000 * used_s / done),
        "load_average": round(psutil.getloadavg()[0], 1),
        "round_trip_p50_ms": round(1000 * latencies_s[len(latencies_s) // 2], 1),
        "round_trip_p99_ms": round(1000 * latencies_s[int(len(latencies_s) * 0.99)], 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--max-jobs", type=int, default=1)
    uvloop.run(main(parser.parse_args()))
