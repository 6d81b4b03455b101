"""The demo's processes: real `euterpe` commands, each with a log file in the demo's folder."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

from euterpe.cli.demo.app import URL_VARIABLE

LEASE = "5s"
START_PATIENCE_S = 20.0


@dataclass(slots=True)
class Member:
    """One process. Workers are called by their POD_NAME, which begins their worker id."""

    name: str
    process: asyncio.subprocess.Process

    def kill(self) -> None:
        """SIGKILL: no goodbye, no clean-up, as when the machine goes."""
        self.process.send_signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class ApiFacts:
    """What the API's first start tells: where it is, its first key and that key's webhook secret."""

    address: str
    key: str
    webhook_secret: str


@dataclass(slots=True)
class DemoProcesses:
    """Starts the demo's processes and makes sure that none outlives it."""

    folder: Path
    url: str
    members: list[Member] = field(default_factory=list)

    async def worker(self, name: str) -> Member:
        return await self._start(
            name, "worker", "euterpe.cli.demo.app:queue", "--concurrency", "3", "--metrics-port", "0"
        )

    async def media_worker(self, name: str, api: ApiFacts) -> Member:
        """One that transcodes, and runs nothing of the demo's app. It tells requesters where the API is."""
        return await self._start(
            name,
            "--role=worker",
            TRANSCODE_PUBLIC_URL=api.address,
            TRANSCODE_LOCAL_ROOT=str(self.folder / "local"),
            TRANSCODE_WORK_DIR=str(self.folder / "work"),
            OBSERVABILITY_METRICS_PORT="0",
        )

    async def pipeline(self, name: str, root: Path) -> Member:
        """API, producer and worker in one, over a folder: the README's command."""
        return await self._start(
            name,
            "--role=all",
            TRANSCODE_LOCAL_ROOT=str(root),
            TRANSCODE_WORK_DIR=str(self.folder / "work"),
            PRODUCER_SCAN_DIR=str(root / "in"),
            PRODUCER_PRESETS="mp3_320",
            PRODUCER_SETTLE="100ms",
            ENGINE_URL=f"sqlite:///{self.folder / name}.db",
        )

    async def api(self) -> ApiFacts:
        """Start the API on a free port, and read what it prints."""
        member = await self._start("api", "--role=api", stdout=asyncio.subprocess.PIPE)
        assert member.process.stdout is not None
        address = key = ""
        async with asyncio.timeout(START_PATIENCE_S):
            while line := (await member.process.stdout.readline()).decode():
                word = line.strip()
                address = word.split()[-1] if word.startswith("API ") else address
                key = word if word.startswith("ek_") else key
                if word.startswith("whsec_"):
                    return ApiFacts(address, key, word)
        raise RuntimeError(f"the API did not start; see {self.folder / 'api.log'}")

    async def _start(
        self, name: str, *arguments: str, stdout: int = asyncio.subprocess.DEVNULL, **settings: str
    ) -> Member:
        environ = {
            **os.environ,
            URL_VARIABLE: self.url,
            "ENGINE_URL": self.url,
            "API_PORT": "0",
            "POD_NAME": name,
            "WORKER_HEARTBEAT_TTL": LEASE,
            "OBSERVABILITY_LOG_FORMAT": "human",
            **settings,
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "euterpe.cli", *arguments, env=environ, stdout=stdout, stderr=log
            )
        member = Member(name, process)
        self.members.append(member)
        return member

    def ended_early(self) -> list[str]:
        """Members that ended although nobody told them to."""
        return [m.name for m in self.members if m.process.returncode not in (None, -signal.SIGKILL)]

    async def stop_all(self) -> None:
        for member in self.members:
            if member.process.returncode is None:
                member.process.send_signal(signal.SIGTERM)
        for member in self.members:
            try:
                async with asyncio.timeout(10):
                    await member.process.wait()
            except TimeoutError:
                member.process.kill()
                await member.process.wait()
