"""A role that starts before its database is ready waits for it; one that was told a wrong place does not."""

from __future__ import annotations

import json
import signal
import socket
import ssl
from collections.abc import Callable, Iterator

import asyncpg
import psycopg
import pytest

from euterpe.model.errors import ServerNotReady
from euterpe.stores.sql.postgres.errors import cannot_connect
from tests.cli.commands import Shell, clean_environment
from tests.cli.conftest import Start
from tests.servers import PostgresServer

WAITING = "database unavailable, retrying"
SESSIONS = 8


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One of these tests' own, to be stopped and to be full."""
    with PostgresServer({"max_connections": str(SESSIONS), "superuser_reserved_connections": "0"}) as running:
        yield running


@pytest.fixture
def shell(folder: object, server: PostgresServer) -> Shell:
    return Shell(folder, clean_environment(ENGINE_URL=server.url))  # type: ignore[arg-type]  # a Path, of the fixture


@pytest.mark.parametrize("arguments", [("--role=outbox",), ("worker", "app:queue"), ("--role=api",)], ids=" ".join)
def test_a_role_waits_for_a_server_that_does_not_listen_yet(
    shell: Shell, start: Start, server: PostgresServer, arguments: tuple[str, ...]
) -> None:
    server.stop()
    try:
        role = start(shell, *arguments)
        role.until_said(WAITING)
    finally:
        server.start()
    role.until_said("database available again")
    role.until_said('"started"')
    role.tell(signal.SIGTERM)
    assert role.ended() == 0
    told = [json.loads(line) for line in role.err if WAITING in line]
    assert len(told) == 1
    assert (told[0]["level"], told[0]["error_code"]) == ("warning", "ConnectionRefusedError")


def test_a_role_waits_for_a_server_with_too_many_connections(
    shell: Shell, start: Start, server: PostgresServer
) -> None:
    taken = [psycopg.connect(server.url) for _ in range(SESSIONS)]
    try:
        role = start(shell, "--role=outbox", OBSERVABILITY_METRICS_PORT="0")
        role.until_said(WAITING)
    finally:
        for connection in taken:
            connection.close()
    role.until_said('"started"')
    assert any("53300" in line for line in role.err if WAITING in line)
    role.tell(signal.SIGTERM)
    assert role.ended() == 0


def test_a_role_that_waits_for_its_database_obeys_a_signal_at_once(
    shell: Shell, start: Start, server: PostgresServer
) -> None:
    nowhere = _nowhere(server)
    role = start(shell, "--role=outbox", ENGINE_URL=nowhere)
    role.until_said(WAITING)
    role.tell(signal.SIGTERM)
    assert role.ended() == 0


def test_a_role_waits_no_longer_than_it_was_told(shell: Shell, server: PostgresServer) -> None:
    complaint = shell.refused("--role=outbox", code=1, ENGINE_URL=_nowhere(server), ENGINE_START_TIMEOUT="700ms")
    assert WAITING in complaint
    assert "euterpe: Postgres does not answer" in complaint
    assert server.password not in complaint


def _nowhere(server: PostgresServer) -> str:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return server.url.replace(f":{server.port}/", f":{taken.getsockname()[1]}/")


def _wrong_password(url: str) -> str:
    return url.replace("//postgres:", "//postgres:not-")


def _missing_database(url: str) -> str:
    return f"{url}_of_nobody"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(_wrong_password, "Postgres refuses the login"), (_missing_database, "Postgres has no such database")],
)
def test_a_wrong_place_is_told_at_once(
    shell: Shell, server: PostgresServer, spoil: Callable[[str], str], words: str
) -> None:
    complaint = shell.refused("--role=outbox", code=1, ENGINE_URL=spoil(server.url), ENGINE_START_TIMEOUT="10m")
    assert words in complaint
    assert WAITING not in complaint
    assert "does not answer" not in complaint


def test_a_command_that_asks_once_does_not_wait(shell: Shell, server: PostgresServer) -> None:
    complaint = shell.refused("stats", code=1, ENGINE_URL=_nowhere(server), ENGINE_START_TIMEOUT="10m")
    assert WAITING not in complaint


def test_a_server_that_cannot_be_reached_is_told_by_name_and_not_by_number() -> None:
    for error, told in (
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ):
        assert str(cannot_connect(error)) == f"Postgres does not answer: {told}"
    typo = asyncpg.UndefinedObjectError('unrecognized configuration parameter "shema"')
    assert str(cannot_connect(typo)).startswith("Postgres refuses the connection: unrecognized configuration parameter")


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (asyncpg.CannotConnectNowError("the database system is starting up"), True),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), True),
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"), True),
        (ConnectionRefusedError("refused"), True),
        (socket.gaierror(socket.EAI_AGAIN, "no name server answers"), True),
        (TimeoutError(), True),
        (asyncpg.InvalidPasswordError("password authentication failed"), False),
        (asyncpg.InvalidAuthorizationSpecificationError("no such role"), False),
        (asyncpg.InvalidCatalogNameError("no such database"), False),
        (asyncpg.ProtocolViolationError("no such database, says PgBouncer"), False),
        (ssl.SSLCertVerificationError("self-signed"), False),
        (asyncpg.InternalClientError("a bug"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_may_pass_by_itself_is_waited_for(error: Exception, may_pass: bool) -> None:
    assert isinstance(cannot_connect(error), ServerNotReady) is may_pass
