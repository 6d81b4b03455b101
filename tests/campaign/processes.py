"""`euterpe` processes as an operator runs them: started, killed, frozen, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from tests.campaign.plan import KILLED_BY_A_JOB

ROOT: Final = Path(__file__).parents[2]
SKEWED: Final = Path(__file__).with_name("skewed")
LEASE_S: Final = 5.0
SWEEP_S: Final = 0.3
STOP_S: Final = 30.0
KEEPER_THAWS_LATER_S: Final = 0.3
SETTINGS: Final = {
    "WORKER_HEARTBEAT_TTL": f"{LEASE_S:.0f}s",
    "WORKER_SWEEP_INTERVAL": f"{SWEEP_S * 1000:.0f}ms",
    "WORKER_POLL_INTERVAL": "200ms",
    "WORKER_GRACE": "5s",
    "CIRCUIT_BREAKER_COOLDOWN_PERIOD": "2s",
    "OUTBOX_POLL_MIN": "100ms",
    "OUTBOX_POLL_MAX": "300ms",
    "OUTBOX_MAX_ATTEMPTS": "100",
    "EGRESS_ALLOW_PRIVATE": "true",
    "OBSERVABILITY_METRICS_PORT": "0",
}


class Role:
    """One place in the fleet. Whoever is killed is followed by another, under a name of its own."""

    def __init__(self, name: str, arguments: list[str], environ: dict[str, str], folder: Path) -> None:
        self._name = name
        self._arguments = arguments
        self._environ = environ
        self._folder = folder
        self._log: IO[bytes] | None = None
        self.lives = 0
        self._frozen: list[int] = []
        self.killed: set[str] = set()
        self.frozen: set[str] = set()
        """The lives that this happened to."""
        self.clock_offset_s = 0.0
        """How wrong the clock of the next life is."""
        self.process: subprocess.Popen[bytes] | None = None
        self.deaths: list[str] = []
        """How it ended without being asked to."""

    @property
    def worker_name(self) -> str:
        return f"{self._name}-{self.lives}"

    @property
    def names(self) -> set[str]:
        """Of all its lives."""
        return {f"{self._name}-{life}" for life in range(1, self.lives + 1)}

    def start(self) -> None:
        self.lives += 1
        self._log = (self._folder / f"{self.worker_name}.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "euterpe.cli", *self._arguments],
            cwd=ROOT,
            env={
                **os.environ,
                **SETTINGS,
                **{f"EUTERPE_{k}": v for k, v in SETTINGS.items()},
                **self._environ,
                **self._wrong_clock(),
                "POD_NAME": self.worker_name,
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # a Ctrl-C is the campaign's own
        )

    def _wrong_clock(self) -> dict[str, str]:
        if not self.clock_offset_s:
            return {}
        path = [str(SKEWED), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(path), "CAMPAIGN_CLOCK_OFFSET_S": str(self.clock_offset_s)}

    def kill(self) -> None:
        assert self.process is not None
        self.look()
        self.killed.add(self.worker_name)
        self.process.kill()
        self.process.wait()

    def kill_keeper(self) -> int:
        """The processes that renew its leases; how many there were."""
        assert self.process is not None
        children = with_children([self.process.pid])[1:]
        for pid in children:
            _signal(pid, signal.SIGKILL)
        return len(children)

    def freeze(self, *, whole: bool = False) -> None:
        """`whole`: its lease keeper too, as when a container is paused."""
        assert self.process is not None
        self.frozen.add(self.worker_name)
        self._frozen = with_children([self.process.pid]) if whole else [self.process.pid]
        for pid in self._frozen:
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """The worker, and then its lease keeper, which would tell it what it has lost."""
        worker, *children = self._frozen
        _signal(worker, signal.SIGCONT)
        if children:
            time.sleep(KEEPER_THAWS_LATER_S)
        for pid in children:
            _signal(pid, signal.SIGCONT)

    @property
    def is_up(self) -> bool:
        """What is still loading its modules neither works nor obeys."""
        return b'"msg":"started"' in (self._folder / f"{self.worker_name}.log").read_bytes()

    def look(self) -> None:
        """Note a death that nobody asked for, and fill the place."""
        if self.process is not None and self.process.poll() is not None:
            if self.process.returncode == KILLED_BY_A_JOB:
                self.killed.add(self.worker_name)
            else:
                self.deaths.append(f"{self.worker_name} ended by itself with {self.process.returncode}")
            self.start()

    def stop(self) -> None:
        """SIGTERM, and whether it obeys in time."""
        if self.process is None:
            return
        self.look()
        self.process.terminate()
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self.deaths.append(f"{self.worker_name} did not stop within {STOP_S:.0f} s of SIGTERM")
        else:
            if code != 0:
                self.deaths.append(f"{self.worker_name} answered SIGTERM with exit {code}")
        self.process = None
        if self._log is not None:
            self._log.close()


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def with_children(pids: list[int]) -> list[int]:
    found = list(pids)
    for pid in found:  # it grows while we walk
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, task.read_text().split())
    return found
