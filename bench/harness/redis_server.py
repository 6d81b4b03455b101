"""The Redis of a run: the machine's redis-server if it is 7 or later, else the test session's 6.2."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from tests.servers import RedisServer


class BenchRedisServer(RedisServer):
    def command(self) -> Sequence[str]:
        packaged, *arguments = super().command()
        return [system_redis() or packaged, *arguments]


def system_redis() -> str | None:
    binary = shutil.which("redis-server")
    if binary is None:
        return None
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"v=(\d+)", answer)
    return binary if found is not None and int(found[1]) >= 7 else None
