"""Starts an example receiver as a real program, tells where it listens and passes on what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

EXAMPLES = Path(__file__).parents[2] / "examples"
LINE_TIMEOUT_S = 30


@dataclass
class Receiver:
    """A running example: where it listens and what it prints."""

    url: str
    lines: Queue[str]

    def next_line(self) -> dict[str, object]:
        line: dict[str, object] = json.loads(self.lines.get(timeout=LINE_TIMEOUT_S))
        return line


def _pass_on(output: Iterable[str], lines: Queue[str]) -> None:
    for line in output:
        lines.put(line)


@contextmanager
def running(command: list[str], secrets: list[str]) -> Iterator[Receiver]:
    env = {**os.environ, "EUTERPE_WEBHOOK_SECRET": " ".join(secrets), "PORT": "0"}
    lines: Queue[str] = Queue()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=quiet, text=True)
    with process:
        assert process.stdout is not None
        reader = threading.Thread(target=_pass_on, args=(process.stdout, lines))
        reader.start()
        try:
            port = json.loads(lines.get(timeout=LINE_TIMEOUT_S))["listening"]
            yield Receiver(f"http://127.0.0.1:{port}/hook", lines)
        finally:
            process.terminate()
            process.wait(LINE_TIMEOUT_S)
            reader.join(LINE_TIMEOUT_S)
