"""The shell worker and the Node worker run real jobs against a real control plane, on both engines.

They need jq and node from the system. Under CI their absence fails the run; elsewhere the test says what it skipped.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.plane import ROOT, anonymous, is_ci, plane_process, running_plane

Json = dict[str, Any]

SHELL_HANDLER = r"""#!/usr/bin/env bash
payload=$(cat)
case $(jq -r .do <<<"$payload") in
    add) jq '{sum: (.a + .b), job: env.JOB_ID, attempt: (env.JOB_ATTEMPT | tonumber)}' <<<"$payload" ;;
    say) jq -r .text <<<"$payload" ;;
    once_more) [ "$JOB_ATTEMPT" -gt 1 ] || { echo "not yet" >&2; exit 1; }; echo '"at last"' ;;
    never) echo "no such row" >&2; exit 65 ;;
    hang) touch "$STARTED"; sleep 300 ;;
esac
"""
NODE_HANDLERS = """
import { writeFileSync } from "node:fs";
const hang = (job) => new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason)));
export default {
  t: async (payload, job) => {
    switch (payload.do) {
      case "add": return { sum: payload.a + payload.b, job: job.id, attempt: job.attempt };
      case "say": return payload.text;
      case "once_more":
        if (job.attempt > 1) return "at last";
        throw new Error("not yet");
      case "never": throw Object.assign(new Error("no such row"), { permanent: true });
      case "hang":
        await job.progress(10, "hanging");
        writeFileSync(process.env.STARTED, "");
        return hang(job);
    }
  },
};
"""


@dataclass(slots=True)
class Ground:
    """A control plane process, a client for it, and a worker that can be started."""

    client: httpx.AsyncClient
    worker: list[str]
    environment: dict[str, str]

    @contextmanager
    def working(self) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(self.worker, env=os.environ | self.environment, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)

    def has_started(self) -> bool:
        """Whether a handler that hangs has begun."""
        return Path(self.environment["STARTED"]).exists()

    async def submit(self, **payload: Any) -> str:
        body = {"type": "t", "payload": payload, "backoff": {"initial": "10ms", "jitter": 0}}
        answer = await self.client.post("/jobs", json=body)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    async def job(self, job_id: str) -> Json:
        document: Json = (await self.client.get(f"/jobs/{job_id}")).json()
        return document

    async def ended(self, job_id: str) -> Json:
        async def is_over() -> Json | None:
            job = await self.job(job_id)
            return job if job["completed_at"] else None

        return await until(is_over)


async def until(found: Callable[[], Awaitable[Json | None]], timeout_s: float = 60) -> Json:
    async with asyncio.timeout(timeout_s):
        while (answer := await found()) is None:  # noqa: ASYNC110  # another process makes it true
            await asyncio.sleep(0.05)
        return answer


def needs(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing and is_ci():
        pytest.fail(f"{', '.join(missing)} must be installed where CI=true")
    if missing:
        pytest.skip(f"could not run: {', '.join(missing)} is not installed here")


@pytest.fixture(params=["shell", "node"])
async def ground(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> AsyncIterator[Ground]:
    if request.param == "shell":
        needs("bash", "curl", "jq")
        handler = tmp_path / "handler.sh"
        handler.write_text(SHELL_HANDLER)
        handler.chmod(0o755)
        worker = [str(ROOT / "examples" / "worker.sh"), str(handler)]
    else:
        needs("node")
        handler = tmp_path / "handlers.mjs"
        handler.write_text(NODE_HANDLERS)
        worker = ["node", str(ROOT / "examples" / "worker.mjs"), str(handler)]
    async with running_plane(url) as plane:
        key = await plane.key("submit", "read", "worker")
    with plane_process(url, "--lease-s", "6", "--sweep-s", "0.1") as server:
        async with anonymous(server.base_url) as client:
            client.headers["authorization"] = f"Bearer {key}"
            environment = {
                "EUTERPE_URL": server.base_url,
                "EUTERPE_KEY": key,
                "EUTERPE_MAX_WAIT_MS": "3000",
                "STARTED": str(tmp_path / "started"),
                "TMPDIR": str(tmp_path),
            }
            yield Ground(client, worker, environment)


async def test_results_retries_and_permanent_failures_end_as_they_should(ground: Ground) -> None:
    add = await ground.submit(do="add", a=2, b=40)
    say = await ground.submit(do="say", text="grüße")
    once_more = await ground.submit(do="once_more")
    never = await ground.submit(do="never")
    with ground.working():
        done = await ground.ended(add)
        assert (done["state"], done["result"]) == ("completed", {"sum": 42, "job": add, "attempt": 1})
        assert (await ground.ended(say))["result"] == "grüße"
        retried = await ground.ended(once_more)
        assert (retried["state"], retried["result"], retried["attempt"]) == ("completed", "at last", 2)
        failed = await ground.ended(never)
        assert (failed["state"], failed["error"]["retryable"], failed["attempt"]) == ("failed", False, 1)
        assert "no such row" in failed["error"]["stack"]
        attempts = (await ground.client.get(f"/jobs/{once_more}/attempts")).json()["attempts"]
        assert [attempt["outcome"] for attempt in attempts] == ["temporary", "completed"]


async def test_a_long_job_keeps_its_lease_and_a_cancel_stops_it(ground: Ground) -> None:
    job_id = await ground.submit(do="hang")
    with ground.working():

        async def beaten_twice() -> Json | None:
            job = await ground.job(job_id)
            started = job["started_at"] and job["heartbeat_at"]
            return job if started and job["heartbeat_at"] > job["started_at"] else None

        first = await until(beaten_twice)

        async def beyond_the_first_lease() -> Json | None:
            job = await ground.job(job_id)
            return job if job["heartbeat_at"] > first["lease_expires_at"] else None

        still = await until(beyond_the_first_lease)
        assert (still["state"], still["attempt"]) == ("running", 1)
        await ground.client.post(f"/jobs/{job_id}/cancel")
        ended = await ground.ended(job_id)
        assert (ended["state"], ended["attempt"]) == ("cancelled", 1)
        # And the worker goes on.
        assert (await ground.ended(await ground.submit(do="add", a=1, b=1)))["state"] == "completed"


async def test_a_terminated_worker_gives_its_job_back_unharmed(ground: Ground) -> None:
    job_id = await ground.submit(do="hang")
    with ground.working() as process:

        async def the_command_runs() -> Json | None:
            return await ground.job(job_id) if ground.has_started() else None

        await until(the_command_runs)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0
    job = await ground.job(job_id)
    assert (job["state"], job["attempt"]) == ("scheduled", 0)


async def test_a_terminated_worker_that_waits_takes_no_job_with_it(ground: Ground) -> None:
    with ground.working() as process:
        assert (await ground.ended(await ground.submit(do="add", a=1, b=1)))["state"] == "completed"
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0
    job_id = await ground.submit(do="add", a=1, b=1)
    assert (await ground.job(job_id))["state"] == "scheduled"


async def test_a_worker_without_the_right_key_says_so_and_ends(ground: Ground) -> None:
    ground.environment["EUTERPE_KEY"] = "ek_nobodys1." + "x" * 43
    with ground.working() as process:
        assert await asyncio.to_thread(process.wait, 30) == 1
