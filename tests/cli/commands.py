"""Running `euterpe` as a process of its own: one shot, or in the background with signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import patience

PATIENCE_S = 40.0
EUTERPE = (sys.executable, "-X", "faulthandler", "-m", "euterpe.cli")
OURS = ("EUTERPE_", "ENGINE_", "WORKER_", "API_", "OBSERVABILITY_", "OUTBOX_", "PRODUCER_", "TRANSCODE_", "POD_NAME")


@dataclass(frozen=True, slots=True)
class Shell:
    """A folder and an environment to run commands in."""

    folder: Path
    environ: dict[str, str]

    def run(self, *arguments: str, stdin: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        """In a process that is forked from a warm one: its imports cost more than most commands."""
        return WARM.run(self.folder, arguments, self.environ | environ, stdin)

    def run_cold(self, *arguments: str, stdin: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        """In a process that starts from nothing, as a user's does."""
        with subprocess.Popen(
            [*EUTERPE, *arguments],
            cwd=self.folder,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                out, err = process.communicate(stdin, PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # faulthandler then tells where it hangs
                out, err = process.communicate()
                raise AssertionError(f"{arguments} hangs:\n{out}\n{err}") from None
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def ok(self, *arguments: str, **kwargs: Any) -> str:
        """What a command that must succeed prints."""
        done = self.run(*arguments, **kwargs)
        assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *arguments: str, **kwargs: Any) -> Any:
        """The document that a command prints with --json."""
        return json.loads(self.ok(*arguments, "--json", **kwargs))

    def refused(self, *arguments: str, code: int, **kwargs: Any) -> str:
        """What a command says when it must fail with this exit code: never a traceback."""
        done = self.run(*arguments, **kwargs)
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stderr

    def background(self, *arguments: str, **environ: str) -> Background:
        process = subprocess.Popen(
            [*EUTERPE, *arguments],
            cwd=self.folder,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return Background(process)


@dataclass
class Background:
    """A command that goes on. Its output is gathered as it comes; wait for words, not for time."""

    process: subprocess.Popen[str]
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._heard = threading.Condition()
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            threading.Thread(target=self._listen, args=(stream, lines), daemon=True).start()

    def _listen(self, stream: Iterator[str], lines: list[str]) -> None:
        for line in stream:
            with self._heard:
                lines.append(line)
                self._heard.notify_all()

    def until_said(self, words: str) -> None:
        """Until the words stand in its output or its log."""
        self.until(lambda: any(words in line for line in (*self.out, *self.err)), words)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + patience.PATIENCE_S
        with self._heard:
            while not condition():
                assert self.process.poll() is None, f"ended before {what!r}: {''.join(self.out)}{''.join(self.err)}"
                if time.monotonic() > deadline:
                    raise TimeoutError(f"never: {what!r}\n{''.join(self.out)}\n{''.join(self.err)}")
                self._heard.wait(0.1)

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def clean_environment(**environ: str) -> dict[str, str]:
    """Ours without what a developer's shell may hold; logs complain of forbidden keys at once."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return inherited | {"EUTERPE_ENV": "test", "OBSERVABILITY_METRICS_PORT": "0", "API_PORT": "0"} | environ


class WarmEuterpe:
    """The other end of `warm_euterpe.py`; it ends with this process, whose end closes its stdin."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._one_at_a_time = threading.Lock()

    def run(
        self, folder: Path, arguments: Sequence[str], environ: dict[str, str], stdin: str | None
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(prefix="euterpe-test-command-") as place:
            files = {name: str(Path(place) / name) for name in ("stdin", "stdout", "stderr")}
            Path(files["stdin"]).write_text(stdin or "")
            how = {"arguments": arguments, "environment": environ, "folder": str(folder), "deadline_s": PATIENCE_S}
            with self._one_at_a_time:
                answer = self._ask(json.dumps(how | files))
            out, err = (Path(files[name]).read_text() for name in ("stdout", "stderr"))
        if not answer.lstrip("-").isdigit():
            raise AssertionError(f"{arguments} hangs: {answer}\n{out}\n{err}")
        return subprocess.CompletedProcess(arguments, int(answer), out, err)

    def _ask(self, request: str) -> str:
        warm = self._process = self._process or subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(Path(__file__).with_name("warm_euterpe.py"))],
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert warm.stdin is not None
        assert warm.stdout is not None
        try:
            warm.stdin.write(request + "\n")
            warm.stdin.flush()
            return warm.stdout.readline().strip()
        except BaseException:
            self.close()  # or its answer would be taken for that of the next command
            raise

    def close(self) -> None:
        warm, self._process = self._process, None
        if warm is not None:
            warm.kill()
            warm.communicate()


WARM = WarmEuterpe()


def lines_with(words: str, lines: Sequence[str]) -> list[str]:
    return [line for line in lines if words in line]
