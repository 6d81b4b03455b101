"""PgBouncer in transaction mode before a Postgres server, from the system's package (`.ci/run` installs it)."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.servers.account import unprivileged_account
from tests.servers.process import ServerProcess


def pgbouncer_binary() -> Path | None:
    found = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    return None if found is None else Path(found)


class PgBouncer(ServerProcess):
    """Two sessions for everybody, so that they do change hands."""

    name = "pgbouncer"
    graceful_signal = signal.SIGINT
    immediate_signal = signal.SIGKILL

    def __init__(self, postgres_url: str, **settings: str) -> None:
        self.account = unprivileged_account()
        self._target = urlsplit(postgres_url)
        self._settings = settings
        super().__init__()

    @property
    def url(self) -> str:
        target = self._target
        return f"postgresql://{target.username}:{target.password}@127.0.0.1:{self.port}{target.path}"

    def prepare(self) -> None:
        return None

    def command(self) -> Sequence[str]:
        target = self._target
        users = self.directory / "users.txt"
        users.write_text(f'"{target.username}" "{target.password}"\n')
        users.chmod(0o644)  # inside a folder that only the server's account may enter
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "plain",
            "auth_file": str(users),
            "pool_mode": "transaction",
            "default_pool_size": "2",
            **self._settings,
        }
        lines = ["[databases]", f"* = host={target.hostname} port={target.port}", "[pgbouncer]"]
        lines += [f"{key} = {value}" for key, value in settings.items()]
        configuration = self.directory / "pgbouncer.ini"
        configuration.write_text("\n".join(lines) + "\n")
        configuration.chmod(0o644)
        binary = pgbouncer_binary()
        assert binary is not None
        return [str(binary), str(configuration)]

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=5, prepare_threshold=None) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True
