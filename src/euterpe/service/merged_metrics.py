"""One page of health and metrics for the processes of a worker, each of which tells its own on a socket in one folder.

Counters and histograms are added; gauges here are what each process sees of the same database, so the largest counts. A
process that ended keeps what it had counted, or a counter would fall.
"""

from __future__ import annotations

import http.client
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 1.0
_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?P<labels>\{.*\})? (?P<value>\S+)")
_ENDINGS: Final = ("_total", "_bucket", "_sum", "_count", "_created")

Samples = dict[tuple[str, str], float]


class MetricsPage:
    """Samples in order, and what kind each family is."""

    def __init__(self, text: str = "") -> None:
        self.heads: dict[str, list[str]] = {}
        self.kinds: dict[str, str] = {}
        self.samples: Samples = {}
        for line in text.splitlines():
            if line.startswith("# "):
                _, word, name, *rest = line.split(" ", 3)
                self.heads.setdefault(name, []).append(line)
                if word == "TYPE":
                    self.kinds[name] = rest[0]
            elif (found := _SAMPLE.match(line)) is not None:
                self.samples[found["name"], found["labels"] or ""] = float(found["value"])

    def kind_of(self, name: str) -> str:
        return self.kinds.get(name) or self.kinds.get(_family(name), "untyped")

    def add(self, other: MetricsPage) -> None:
        self.heads |= {name: lines for name, lines in other.heads.items() if name not in self.heads}
        self.kinds |= other.kinds
        for key, value in other.samples.items():
            if self.kind_of(key[0]) == "gauge":
                self.samples[key] = max(self.samples.get(key, value), value)
            else:
                self.samples[key] = self.samples.get(key, 0.0) + value

    def without_gauges(self) -> MetricsPage:
        kept = MetricsPage()
        kept.heads, kept.kinds = self.heads, self.kinds
        kept.samples = {key: value for key, value in self.samples.items() if self.kind_of(key[0]) != "gauge"}
        return kept

    def render(self) -> bytes:
        lines: list[str] = []
        declared: set[str] = set()
        for (name, labels), value in self.samples.items():
            family = name if name in self.heads else _family(name)
            if family not in declared:
                declared.add(family)
                lines += self.heads.get(family, [])
            lines.append(f"{name}{labels} {value:.17g}")
        return ("\n".join(lines) + "\n").encode()


def _family(name: str) -> str:
    return next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)


class MergedMetrics:
    """Asks every process that has a socket in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: dict[str, MetricsPage] = {}

    def render(self) -> tuple[str, bytes]:
        merged = MetricsPage()
        alive: set[str] = set()
        media_type = "text/plain"
        for path in self._sockets():
            with suppress(OSError):  # It ended, or hangs: what it had counted stands.
                media_type, body = ask(path, "/metrics")[1:]
                self._last[path.name] = MetricsPage(body.decode())
                alive.add(path.name)
        for name, page in self._last.items():
            merged.add(page if name in alive else page.without_gauges())
        return media_type, merged.render()

    def _sockets(self) -> list[Path]:
        return sorted(self._folder.glob("*.sock"))

    def all_ready(self) -> bool:
        """Whether there is a process, and each of them takes jobs."""
        answers: list[int] = []
        for path in self._sockets():
            try:
                answers.append(ask(path, "/readyz")[0])
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)  # Nobody listens there any more.
            except OSError:
                return False
        return bool(answers) and all(status == http.client.OK for status in answers)


def ask(path: Path, what: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(str(path))
        connection.request("GET", what)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", "text/plain"), answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
