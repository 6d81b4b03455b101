"""A small core: three packages for a queue on SQLite; what is missing is told with the command that installs it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from euterpe.model.errors import MissingExtra
from euterpe.model.extras import EXTRAS, needing
from tests.packaging.installing import OURS, ROOT, Environment

MISSING = """
import asyncio, logging, euterpe
logging.basicConfig(level=logging.WARNING, format="%(message)s")

for build in (
    lambda: euterpe.Queue("postgresql://localhost/jobs"),
    lambda: euterpe.Queue("libsql:///jobs.db"),
    lambda: euterpe.Queue("redis://localhost"),
    lambda: euterpe.Queue("http://localhost:1", token="k"),
    lambda: euterpe.Queue("sqlite:///jobs.db", transport="redis://localhost"),
):
    try:
        build()
    except euterpe.MissingExtra as error:
        print(error)

queue = euterpe.Queue("sqlite:///jobs.db")

@queue.job("greet")
async def greet(name: str) -> str:
    return name

class Warned(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = asyncio.Event()
    def emit(self, record):
        self.seen.set()

async def main():
    warned = Warned()
    logging.getLogger("euterpe.outbox").addHandler(warned)
    async with queue, queue.worker():
        job = await greet.options(callback_url="https://example.com/hook").submit("world")
        print(await job.result(timeout="30s"))
        await asyncio.wait_for(warned.seen.wait(), 30)
        again = await greet.submit("again")
        print(await again.result(timeout="30s"))

asyncio.run(main())
"""


def test_the_core_is_three_packages_and_runs_the_program_of_the_readme(core: Environment, tmp_path: Path) -> None:
    program = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert program is not None
    (tmp_path / "program.py").write_text(program.group(1))
    ran = core.run("python", "program.py", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "{'report': 7}\n"), ran.stderr
    installed = {path.name.partition("-")[0] for path in core.packages.glob("*.dist-info")}
    assert installed == {"apsw", "cronsim", "msgspec", "euterpe_queue"}


def test_what_is_missing_is_told_with_the_command_that_installs_it(core: Environment, tmp_path: Path) -> None:
    ran = core.run("python", "-c", MISSING, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = (
        "{what} needs the package {package}, which is not installed; "
        "install it with: pip install 'euterpe-queue[{extra}]'"
    )
    assert ran.stdout.splitlines()[:7] == [
        told.format(what="a Postgres queue", package="asyncpg", extra="postgres"),
        told.format(what="a libsql queue", package="libsql", extra="libsql"),
        told.format(what="a queue in Redis lists", package="redis", extra="redis"),
        told.format(what="a queue over HTTP", package="aiohttp", extra="http"),
        told.format(what="a transport over Redis", package="redis", extra="redis"),
        "world",
        "again",
    ]
    # The event waits for a process that can send it. One sentence says so, however often the worker looks.
    assert ran.stderr.count("webhooks wait, this worker cannot send them") == 1, ran.stderr
    assert "pip install 'euterpe-queue[webhooks]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_command_line_says_what_it_lacks(core: Environment, tmp_path: Path) -> None:
    command = core.run("euterpe", "jobs", "list", folder=tmp_path)
    assert command.returncode == 1
    assert command.stderr == (
        "euterpe: this command needs the package click, which is not installed; "
        "install it with: pip install 'euterpe-queue[cli]'\n"
    )


def test_with_the_extra_of_the_command_line_everything_runs_but_a_server(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "env", built[0], "cli")
    submitted = environment.run("euterpe", "submit", "greet", "{}", "--engine", "sqlite:///jobs.db", folder=tmp_path)
    assert submitted.returncode == 0, submitted.stderr
    looked = environment.run("euterpe", "doctor", "--engine", "sqlite:///jobs.db", folder=tmp_path)
    assert "Traceback" not in looked.stderr
    assert " checks: " in looked.stdout
    assert environment.run("euterpe", "bench", "--help", folder=tmp_path).returncode == 0
    served = environment.run("euterpe", "--role=all", folder=tmp_path, API_PORT="0")
    assert served.returncode == 1
    assert "needs the package uvicorn" in served.stderr
    assert "pip install 'euterpe-queue[server]'" in served.stderr
    assert "Traceback" not in served.stderr


def test_the_table_of_extras_is_the_packages_own() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    modules_of: dict[str, set[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            modules_of.setdefault(name.lower().replace("_", "-"), set()).add(module)
    for extra, modules in EXTRAS.items():
        wanted = [Requirement(text) for text in project["optional-dependencies"][extra]]
        named = {requirement.name.lower() for requirement in wanted if requirement.name != OURS}
        assert all(modules_of[name] & set(modules) for name in named), extra
    core = {Requirement(text).name for text in project["dependencies"]}
    assert core == {"apsw", "cronsim", "msgspec", "tzdata"}
    # What an extra brings can be told to whoever lacks it; the drivers of a caller's own library are the caller's.
    assert project["optional-dependencies"].keys() - EXTRAS.keys() == {
        "psycopg",
        "sqlalchemy",
        "django",
        "opentelemetry",
        "all",
    }


def test_an_import_that_fails_for_another_reason_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as raised, needing("this"):
        import no_such_module_of_anybody  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(raised.value, MissingExtra)
