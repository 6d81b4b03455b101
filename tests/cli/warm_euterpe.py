"""A process that has imported all that a short command needs, and forks itself for each: a command then costs what it
does, and not what its imports cost.

A request is one line of JSON on stdin, its answer (the exit code, or `late`) one line on stdout; the end of stdin ends
it. What a command reads and prints are files. Its stdout is no terminal, as in a pipe.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypedDict

LIBRARIES: Final = ("apsw", "asyncpg", "click", "redis.asyncio", "rich.console", "rich.table", "aiohttp", "ruamel.yaml")
APART: Final = "euterpe.cli.commands.demo"
"""Its app reads the environment as it loads."""
POLL_S: Final = 0.002
CommandLine = Callable[[], None]


class Request(TypedDict):
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    stdin: str
    stdout: str
    stderr: str
    deadline_s: float


def main() -> None:
    sys.path.pop(0)  # the folder of this script
    command_line: CommandLine = importlib.import_module("euterpe.cli").main  # before the module of that name hides it
    commands = importlib.import_module("euterpe.cli.commands")
    found = [module.name for module in pkgutil.walk_packages(commands.__path__, "euterpe.cli.commands.")]
    for name in (*LIBRARIES, "euterpe.cli.main", "euterpe.backends.engines", *found):
        if name != APART:
            importlib.import_module(name)
    if threading.active_count() > 1:
        raise SystemExit("a library brought a thread along: nothing may be forked from here")
    gc.freeze()
    for line in sys.stdin:
        print(serve(json.loads(line), command_line), flush=True)


def serve(request: Request, command_line: CommandLine) -> str:
    pid = os.fork()
    if pid == 0:
        become(request)
        command_line()
        raise SystemExit
    ends_at_s = time.monotonic() + request["deadline_s"]
    while time.monotonic() < ends_at_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(POLL_S)
    os.kill(pid, signal.SIGABRT)  # faulthandler then tells where it hangs
    os.waitpid(pid, 0)
    return "late"


def become(request: Request) -> None:
    """A process as the request wants it."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    random.seed()
    for number, (name, mode) in enumerate(
        ((request["stdin"], "r"), (request["stdout"], "w"), (request["stderr"], "w"))
    ):
        with Path(name).open(mode) as file:
            os.dup2(file.fileno(), number)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    faulthandler.enable()
    sys.path.insert(0, request["folder"])  # as with `python -m`
    sys.argv[1:] = request["arguments"]


if __name__ == "__main__":
    main()
