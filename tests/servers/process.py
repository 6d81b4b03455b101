"""A server of the test session: a process on a free loopback port, with its files in a folder of its own.

A subclass says how to prepare the folder, what to run and how to ask whether the server answers. The folder
goes with the server, and a watchdog ends both even if the session is killed outright.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tests.servers.account import Account

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 30.0
POLL_S = 0.02
PORT_ATTEMPTS = 5
IN_USE = "Address already in use"


class ServerFailed(Exception):
    """A server did not start or did not stop; the message holds the end of its log and the log's path."""


class ServerProcess(ABC):
    """`start`, `stop` and `restart` may alternate freely (same port, same data); `close` ends it for good."""

    name: ClassVar[str]
    graceful_signal: ClassVar[signal.Signals]
    immediate_signal: ClassVar[signal.Signals]
    account: Account | None = None

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(12)
        self.directory = _make_directory(self.name, self.account)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """What a client connects to."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the data folder; called once, before the first start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The server's command line for the current port."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether a client gets a true answer now."""

    @property
    def log_path(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running; call start() first")
        return self._process.pid

    def start(self) -> Self:
        if self._process is not None:
            raise ServerFailed(f"{self.name} is running already; call restart() to start it anew")
        if self.port:
            self._launch()
            return self
        self.prepare()
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            self.port = free_port()
            try:
                self._launch()
                return self
            except ServerFailed:
                # Someone may have taken the port between our look and the server's bind.
                if not attempts_left or not self._lacked_a_port():
                    raise
        raise AssertionError("the last attempt either returns or raises")

    def _lacked_a_port(self) -> bool:
        """Its own, or another one that it derives from it, as a node of a Redis cluster does."""
        return not port_is_free(self.port) or IN_USE in self.log_path.read_text(errors="replace")

    def stop(self, immediate: bool = False) -> None:
        """End the process and keep the data. `immediate` gives it no chance to tidy up, like a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(self.immediate_signal if immediate else self.graceful_signal)
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerFailed(
                f"{self.name} did not stop within {STOP_DEADLINE_S:.0f} s and was killed: {self.log_path}"
            ) from None
        finally:
            self._dismiss_watchdog()

    def restart(self, immediate: bool = False) -> None:
        self.stop(immediate=immediate)
        self.start()

    def close(self) -> None:
        """Stop at once and remove everything. Safe to call twice."""
        try:
            self.stop(immediate=True)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run_tool(self, command: Sequence[str]) -> None:
        """Run one of the server's own tools to its end, under the server's account."""
        returncode = self._spawn(command).wait()
        if returncode != 0:
            raise self._failure(f"could not be prepared: {Path(command[0]).name} ended with {returncode}")

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        # PGPORT, PGDATA and the like of the user's shell must not steer our server.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_"))}
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env=inherited | {"LANG": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A session of its own: Ctrl-C is for pytest, which then stops the server in order.
                start_new_session=True,
                user=self.account.uid if self.account else None,
                group=self.account.gid if self.account else None,
                extra_groups=[] if self.account else None,
            )

    def _launch(self) -> None:
        process = self._process = self._spawn(self.command())
        self._post_watchdog()
        try:
            self._wait_until_it_answers(process)
        except BaseException:
            process.kill()
            process.wait()
            self._process = None
            self._dismiss_watchdog()
            raise

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + START_DEADLINE_S
        while not self.answers():
            if process.poll() is not None:
                raise self._failure(f"ended with {process.returncode} while starting")
            if time.monotonic() > deadline_s:
                raise self._failure(f"did not answer within {START_DEADLINE_S:.0f} s")
            time.sleep(POLL_S)

    def _post_watchdog(self) -> None:
        command = [
            sys.executable,
            "-IS",
            str(Path(__file__).with_name("watchdog.py")),
            str(os.getpid()),
            str(self.pid),
            str(int(self.immediate_signal)),
            str(self.directory),
        ]
        self._watchdog = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def _dismiss_watchdog(self) -> None:
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.wait()
            self._watchdog = None

    def _failure(self, what: str) -> ServerFailed:
        log = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        last_lines = "\n".join(log.splitlines()[-20:])
        return ServerFailed(f"{self.name} {what}; the end of its log ({self.log_path}):\n{last_lines}")


def free_port() -> int:
    """A port that nobody listens on, outside the range that the system gives to outgoing connections.

    Inside that range a client that retries against a stopped server can connect to itself, and hold the port.
    """
    for _ in range(200):
        port = random.randint(15_000, 31_999)
        if port_is_free(port):
            return port
    raise ServerFailed("found no free port between 15000 and 31999 on 127.0.0.1")


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of an earlier server in TIME_WAIT are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _make_directory(name: str, account: Account | None) -> Path:
    parent = None if account is None else account.reachable_temporary_folder()
    directory = Path(tempfile.mkdtemp(prefix=f"euterpe-test-{name}-", dir=parent))
    if account is not None:
        os.chown(directory, account.uid, account.gid)
    return directory
