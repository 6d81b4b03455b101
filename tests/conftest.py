"""The databases that tests ask for: a fresh SQLite file, a fresh Postgres schema, an empty Redis database.

`sqlite_url` and `fresh_postgres_url` are migrated already (`tests/migrated.py`). A test of what Euterpe does where it
finds no tables asks for `bare_sqlite_url` and `bare_postgres_url`.

One Postgres and one Redis serve the whole session. Under xdist the controlling process starts both before its
workers, and tells them where by the same environment variables with which a user names servers of their own.
Without xdist a server starts when the first test asks for it. A server that cannot start fails the run.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis
from hypothesis import HealthCheck, settings

from tests.faults.recorder import record
from tests.migrated import SpareSchemas, session_of, sqlite_template, with_schema
from tests.servers import PostgresServer, RedisServer, ServerProcess

# Properties run the same examples every time, and a slow machine is no failure.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

POSTGRES_VARIABLE = "EUTERPE_TEST_POSTGRES_URL"
REDIS_VARIABLE = "EUTERPE_TEST_REDIS_URL"
TEMPLATES_VARIABLE = "EUTERPE_TEST_TEMPLATES"
"""The folder that all processes of a session share; its path also tells the session's spare schemas from others."""
SERVERS: dict[str, Callable[[], ServerProcess]] = {
    # Nobody cuts its power, so nobody waits for its disk. Tests that kill a Postgres have one of their own, with fsync.
    POSTGRES_VARIABLE: lambda: PostgresServer({"fsync": "off"}),
    REDIS_VARIABLE: RedisServer,
}

DATABASES = {
    "sqlite_url",
    "bare_sqlite_url",
    "fresh_postgres_url",
    "recorded_postgres_url",
    "bare_postgres_url",
    "redis_url",
}

_running = pytest.StashKey[dict[str, ServerProcess]]()
_made = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_running] = {}
    config.stash[_made] = TEMPLATES_VARIABLE not in os.environ
    if config.stash[_made]:
        os.environ[TEMPLATES_VARIABLE] = tempfile.mkdtemp(prefix="euterpe-test-templates-")


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers, which inherit the environment
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    distributes = bool(config.getoption("tx", default=None))
    if distributes and not config.getoption("collectonly"):
        missing = [variable for variable in SERVERS if not os.environ.get(variable)]
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda variable: _server_url(config, variable), missing))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test gets its database first, so the processes that use it have ended when it is taken back."""
    for item in items:
        if isinstance(item, pytest.Function):
            item.fixturenames.sort(key=lambda name: name not in DATABASES)


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(_made, False):
        folder = Path(os.environ.pop(TEMPLATES_VARIABLE))
        if (url := os.environ.get(POSTGRES_VARIABLE)) and POSTGRES_VARIABLE not in config.stash[_running]:
            SpareSchemas(url, session_of(folder)).drop_all()  # a user's server, which stays
        shutil.rmtree(folder, ignore_errors=True)
    for variable, server in config.stash.get(_running, {}).items():
        del os.environ[variable]
        server.close()


def _server_url(config: pytest.Config, variable: str) -> str:
    if not os.environ.get(variable):
        # Kept only once it runs: the folder of one that failed stays, with the log that says why.
        server = SERVERS[variable]().start()
        config.stash[_running][variable] = server
        os.environ[variable] = server.url
    return os.environ[variable]


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> str:
    """The session's Postgres server; shared, so a test that writes asks for `fresh_postgres_url`."""
    return _server_url(pytestconfig, POSTGRES_VARIABLE)


@pytest.fixture(scope="session")
def templates() -> Path:
    return Path(os.environ[TEMPLATES_VARIABLE])


@pytest.fixture
def fresh_postgres_url(postgres_url: str, templates: Path) -> Iterator[str]:
    """A schema of this test's own, migrated and without a row; the URL names it as Euterpe takes it."""
    with SpareSchemas(postgres_url, session_of(templates)).lent() as url:
        yield url


@pytest.fixture
def recorded_postgres_url(postgres_url: str, templates: Path) -> Iterator[str]:
    """The same, with every move of every job recorded."""
    with SpareSchemas(postgres_url, session_of(templates), record).lent() as url:
        yield url


@pytest.fixture
def bare_postgres_url(postgres_url: str) -> Iterator[str]:
    """A schema of this test's own without any table."""
    schema = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    yield with_schema(postgres_url, schema)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        # A test that left a transaction open shall fail here by name, and not hang.
        connection.execute("SET lock_timeout = '10s'")
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def redis_url(pytestconfig: pytest.Config, worker_number: int) -> Iterator[str]:
    """An empty database of this worker's own. FLUSHALL, CONFIG and the like are for a private RedisServer."""
    parts = urlsplit(_server_url(pytestconfig, REDIS_VARIABLE))
    database = int(parts.path.strip("/") or 0) + worker_number
    url = urlunsplit(parts._replace(path=f"/{database}"))
    with redis.Redis.from_url(url) as client:
        if client.dbsize():
            # It may be a user's server: what we did not write we do not delete.
            pytest.fail(f"Redis database {database} is not empty; name another in {REDIS_VARIABLE}, or flush it")
        yield url
        client.flushdb()


@pytest.fixture(scope="session")
def worker_number() -> int:
    """0 in a single process, else the number of this xdist worker: gw0 has 0."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


@pytest.fixture
def sqlite_url(bare_sqlite_url: str, templates: Path) -> str:
    """A file of this test's own, migrated and without a row."""
    shutil.copyfile(sqlite_template(templates), bare_sqlite_url.removeprefix("sqlite:///"))
    return bare_sqlite_url


@pytest.fixture
def bare_sqlite_url(tmp_path: Path) -> str:
    """A database file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'jobs.db'}"
