"""One API process of ours on the measured database, for subjects that work over HTTP."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

from bench.peers.serve import end_with_stdin
from euterpe.backends.accounts import api_keys
from euterpe.backends.engines import connect
from euterpe.cli import main


async def worker_key(url: str) -> str:
    backend = connect(url)
    await backend.open(migrate=False)
    try:
        return (await api_keys(backend.store).create_key("bench", ["worker"])).key
    finally:
        await backend.close()


def start_api(url: str) -> int:
    """`euterpe --role=api` with its shipped settings; returns the port once it listens. It ends with this process."""
    settings = {"ENGINE_URL": url, "API_PORT": "0", "OBSERVABILITY_LOG_LEVEL": "warn"}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.peers.control_plane", "--role=api"],
        env={**os.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"^\s*API\s+http://\S+:(\d+)$", line):
            return int(found[1])
    raise RuntimeError(f"the API process ended with {process.wait()}")


if __name__ == "__main__":
    threading.Thread(target=end_with_stdin, daemon=True).start()
    main()
