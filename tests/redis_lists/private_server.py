"""A Redis of one test's own, with lines of configuration that the shared one must not have."""

from __future__ import annotations

from tests.servers import RedisServer


class ConfiguredRedis(RedisServer):
    def __init__(self, **lines: str) -> None:
        super().__init__()
        self._lines = lines

    def prepare(self) -> None:
        super().prepare()
        with self._configuration.open("a") as file:
            file.writelines(f"{key.replace('_', '-')} {value}\n" for key, value in self._lines.items())


DURABLE = {"appendonly": "yes", "appendfsync": "always"}
"""What survives a kill -9 of Redis is what it has written down before it answered."""
