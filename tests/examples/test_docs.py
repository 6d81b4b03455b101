"""What the quick start and the page on testing say is typed and run here, in an empty folder, as a stranger would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BIN = Path(sys.executable).parent


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def shell_lines(page: str) -> list[str]:
    """The indented lines that call our command, made to call this environment's."""
    lines = re.findall(r"^    (\.venv/bin/euterpe .*)$", (DOCS / page).read_text(), re.MULTILINE)
    return [line.replace(".venv/bin", str(BIN)) for line in lines]


def run(command: str | list[str], folder: Path) -> str:
    ran = subprocess.run(
        command, shell=isinstance(command, str), cwd=folder, text=True, capture_output=True, timeout=100, check=False
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@contextmanager
def background(command: str, folder: Path) -> Iterator[None]:
    """A line that ends in `&`, ended by SIGTERM."""
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(["/bin/sh", "-c", f"exec {command}"], cwd=folder, stderr=log, stdout=log)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (folder / "worker.log").read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["sqlite", "postgres"])
def app_line(request: pytest.FixtureRequest) -> str:
    """The quick start's own line for its database, with a real address where it has a made-up one."""
    lines = re.findall(r'queue = euterpe\.Queue\("[^"]+"\)', (DOCS / "quickstart.md").read_text())
    assert len(lines) == 2, "one for SQLite, one for Postgres"
    if request.param == "sqlite":
        return str(lines[0])
    address = re.search(r'"(.+)"', lines[1])
    assert address is not None
    return str(lines[1]).replace(address.group(1), request.getfixturevalue("bare_postgres_url"))


def test_the_quick_start_does_what_it_says(app_line: str, tmp_path: Path) -> None:
    app, script, more = python_blocks("quickstart.md")
    worker, submit = shell_lines("quickstart.md")
    (tmp_path / "myapp.py").write_text(re.sub(r"queue = euterpe\.Queue\(.*\)", app_line, app))
    (tmp_path / "script.py").write_text(script)
    body = indent(more, "        ")
    (tmp_path / "more.py").write_text(
        "import asyncio\nfrom myapp import queue, render\n\n"
        f"async def main() -> None:\n    async with queue:\n{body}"
        "        print((await queue.stats()).by_state)\nasyncio.run(main())\n"
    )
    started = time.monotonic()
    with background(worker.removesuffix(" &"), tmp_path):
        assert "completed" in run(submit, tmp_path)
        assert run([sys.executable, "script.py"], tmp_path) == "{'report': 8}\n"
    assert "scheduled" in run([sys.executable, "more.py"], tmp_path)
    print(f"worked through in {time.monotonic() - started:.1f} s")


def test_the_page_on_the_python_api_does_what_it_says(tmp_path: Path) -> None:
    (script,) = python_blocks("python.md")
    (tmp_path / "script.py").write_text(script)
    assert run([sys.executable, "script.py"], tmp_path).splitlines() == [
        "{'pages': 7}",
        "completed 7 a UTC",
        "failed no_report there is no such report",
        "1 True 0",
    ]


def test_the_page_on_hooks_does_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(python_blocks("hooks.md")[0])
    assert run([sys.executable, "script.py"], tmp_path).splitlines() == [
        "opened",
        "count took less than a second: True",
        "1 {'tenant': 'acme'}",
        "count took less than a second: True",
        "attempt 1 of 1 failed: there is no word",
        "closed",
    ]


def test_the_example_of_the_readme_does_what_it_says(tmp_path: Path) -> None:
    (script,) = python_blocks("../README.md")[:1]
    (tmp_path / "script.py").write_text(script)
    assert run([sys.executable, "script.py"], tmp_path) == "{'report': 7}\n"


def test_the_page_on_testing_does_what_it_says(tmp_path: Path) -> None:
    app, test = python_blocks("testing.md")
    (tmp_path / "shop.py").write_text(app)
    (tmp_path / "test_shop.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"],
        cwd=tmp_path, env=environ, text=True, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


@pytest.mark.parametrize("page", ["retries.md", "dependencies.md", "idempotency.md", "leases.md", "operations.md"])
def test_the_code_on_every_page_is_python(page: str) -> None:
    for block in python_blocks(page):
        compile("async def page():\n" + indent(block, "    "), page, "exec")
