"""The other end of `processes.py`: a process that runs one handler for one job after another.

Started as `python -m euterpe.worker.child FD`; the first line over that socket says what to serve.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from euterpe.model.errors import PermanentError, TemporaryError
from euterpe.worker.handlers import handler_of


class ChildContext:
    """The context inside a process: the same names; news goes over the pipe."""

    def __init__(self, request: dict[str, Any], send: Callable[[str, Any], None]) -> None:
        self._send = send
        self.job_id: str = request["job_id"]
        self.attempt: int = request["attempt"]
        self.max_attempts: int = request["max_attempts"]
        self.attempt_id: str = request["attempt_id"]
        self.previous_attempt_id: str | None = request["previous_attempt_id"]
        self.deadline: float = request["deadline"]
        self.tags: dict[str, str] = request["tags"]
        self.correlation_id: str | None = request["correlation_id"]
        self.last_checkpoint: Any = request["last_checkpoint"]
        self.cancelled = False

    def progress(self, percent: float, message: str | None = None) -> None:
        self._send("progress", {"percent": percent, "message": message})

    def checkpoint(self, value: Any) -> None:
        self._send("checkpoint", value)

    def stage(self, name: str) -> None:
        self._send("stage", name)


def find(module: str, qualname: str) -> Callable[..., Any]:
    """The function that was registered, past whatever decorated it."""
    if module.endswith(".py"):
        found: Any = runpy.run_path(module, run_name="__euterpe_child__")
        first, *rest = qualname.split(".")
        found = found[first]
    else:
        found = importlib.import_module(module)
        rest = qualname.split(".")
    for name in rest:
        found = getattr(found, name)
    function: Callable[..., Any] = getattr(found, "function", found)
    return function


def serve(link: Any) -> None:
    lock = threading.Lock()

    def send(kind: str, value: Any) -> None:
        line = msgspec.json.encode([kind, value]) + b"\n"
        with lock:
            link.write(line)
            link.flush()

    orders = msgspec.json.decode(link.readline())
    # The module may read its command line and must find its neighbours, as it does in the worker.
    sys.argv, sys.path = orders["argv"], orders["path"]
    try:
        handler = handler_of(orders["type"], find(orders["module"], orders["qualname"]), process=True)
    except Exception as error:  # noqa: BLE001  # importing user code may raise anything
        where = f"{orders['module']}:{orders['qualname']}"
        send("permanent", {"message": f"cannot import {where}: {error!r}", "code": "not_importable"})
        return
    for line in link:
        request = msgspec.json.decode(line)
        context = ChildContext(request, send)
        try:
            arguments = handler.decode(msgspec.json.encode(request["arguments"]))
            args = (context,) if handler.takes_context else ()
            send("result", handler.function(*args, **arguments))
        except PermanentError as error:
            send("permanent", {"message": error.message, "code": error.code})
        except TemporaryError as error:
            send("temporary", {"message": error.message, "retry_after": error.retry_after})
        except TypeError as error:
            send("temporary", {"message": f"TypeError: {error}"})
        except Exception as error:  # noqa: BLE001  # whatever the handler raises is the job's error
            send("temporary", {"message": f"{type(error).__name__}: {error}"})


def main() -> None:
    descriptor = sys.argv[1]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = socket.socket(fileno=int(descriptor))
    os.set_inheritable(link.fileno(), False)
    with link, link.makefile("rwb") as stream:
        serve(stream)


if __name__ == "__main__":
    main()
