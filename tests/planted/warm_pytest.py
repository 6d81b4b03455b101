"""A process that has imported pytest and every library, and forks itself for each run of a test: a fork costs a
hundredth of what those imports cost.

It is started as a script, so that neither `euterpe` nor `tests` is loaded before the fork: a run imports both from the
place that it is told. A request is one line of JSON on stdin, its answer one line on stdout; the end of stdin ends it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final, NoReturn, TypedDict

import pytest

LIBRARIES: Final = (
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "aiohttp",
    "apsw",
    "asyncpg",
    "click",
    "cryptography.hazmat.primitives.ciphers.aead",
    "hypothesis",
    "httpx",
    "msgspec",
    "multiprocessing",
    "prometheus_client",
    "psycopg",
    "redis.asyncio",
    "uvicorn",
    "ruamel.yaml",
)
"""Only what takes time to import and what many tests use. A library that is missing here is loaded after the fork."""

POLL_S: Final = 0.005


class Request(TypedDict):
    arguments: list[str]
    environment: dict[str, str]
    output: str
    deadline_s: float


def main() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    loaded = {name.partition(".")[0] for name in sys.modules}
    if loaded & {"euterpe", "tests"} or threading.active_count() > 1:
        raise SystemExit("a library brought Euterpe, its tests or a thread along: nothing may be forked from here")
    gc.freeze()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for line in sys.stdin:
        print(serve(json.loads(line)), flush=True)


def serve(request: Request) -> str:
    """The exit code of pytest, or `late`."""
    pid = os.fork()
    if pid == 0:
        run(request)
    with contextlib.suppress(PermissionError):  # when it has done so itself; both, because either may be first
        os.setpgid(pid, pid)
    try:
        code = exit_code(pid, request["deadline_s"])
    finally:
        # What the test started and did not end goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    if code is None:
        os.waitpid(pid, 0)
        return "late"
    return str(code)


def exit_code(pid: int, deadline_s: float) -> int | None:
    ends_at_s = time.monotonic() + deadline_s
    while time.monotonic() < ends_at_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL_S)
    return None


def run(request: Request) -> NoReturn:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with Path(os.devnull).open() as nothing, Path(request["output"]).open("w") as output:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    # As with `python -m pytest` and PYTHONPATH, and without the folder of this script.
    sys.path[0:1] = [str(Path.cwd()), *request["environment"]["PYTHONPATH"].split(os.pathsep)]
    raise SystemExit(pytest.main(request["arguments"]))


if __name__ == "__main__":
    main()
