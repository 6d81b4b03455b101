"""A database user who may not change the schema: works on one that is up to date, and is told what to do otherwise."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from euterpe.stores.sql.postgres.engine import split_url
from tests.cli.commands import Shell


@pytest.fixture
def limited(postgres_url: str) -> Iterator[str]:
    """A role without any right of its own."""
    role = f"limited_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role}")
        yield role
        owner.execute(f"DROP OWNED BY {role}")
        owner.execute(f"DROP ROLE {role}")


def test_who_may_not_create_is_told_who_must_and_which_grants_it_takes(
    shell: Shell, bare_postgres_url: str, limited: str
) -> None:
    dsn, options = split_url(bare_postgres_url)
    as_limited = f"{bare_postgres_url}&role={limited}"
    for command in (["stats"], ["migrate"], ["submit", "greet", "{}"]):
        told = shell.refused(*command, "--engine", as_limited, code=1)
        assert "let the owner of the schema run `euterpe migrate`" in told
        assert "permission denied" in told

    shell.ok("migrate", "--engine", bare_postgres_url)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(f"GRANT USAGE ON SCHEMA {options['schema']} TO {limited}")
        owner.execute(f"GRANT SELECT ON {options['schema']}.euterpe_migrations TO {limited}")
        told = shell.refused("stats", "--engine", as_limited, code=1)
        assert "SELECT, INSERT, UPDATE and DELETE" in told
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {options['schema']} TO {limited}")
        shell.ok("stats", "--engine", as_limited)  # to look, reading is enough
        for role in (["--role=outbox"], ["worker", "app:queue"]):
            told = shell.refused(*role, code=1, ENGINE_URL=as_limited)
            assert "no INSERT, UPDATE, DELETE on" in told
            assert "SELECT, INSERT, UPDATE and DELETE" in told
            assert [line for line in told.splitlines() if '"level":"error"' in line] == [], "one clear sentence"
        owner.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {options['schema']} TO {limited}")
    job = shell.json("submit", "greet", '{"name": "ada"}', "--engine", as_limited)
    assert shell.json("status", job["job_id"], "--engine", as_limited)["state"] == "scheduled"
    assert "up to date" in shell.ok("migrate", "--engine", as_limited)
