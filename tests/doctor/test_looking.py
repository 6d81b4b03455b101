"""The facts behind the checks, gathered from real databases, a real Redis and the real machine."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from euterpe.backends.diagnosis import DatabaseProbe
from euterpe.backends.engines import Backend, connect
from euterpe.config.loading import load
from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.presence import Presence, WorkerFacts
from euterpe.model.diagnosis.facts import SqliteFacts
from euterpe.model.diagnosis.finding import Severity
from euterpe.model.errors import Unsupported
from euterpe.model.submitting.submission import Submission
from euterpe.redis.inspecting import redis_facts
from euterpe.redis.settings import RedisTuning
from euterpe.service.doctor.doctor import examine
from euterpe.service.doctor.machine import file_system_of, machine_facts, with_file
from euterpe.stores.remote.store import HttpStore
from euterpe.stores.sql.accounts.keys import ApiKeys
from tests.conformance.clock import FrozenClock
from tests.sql_stores import sql

DAY_US = 86_400_000_000
Look = tuple[Backend, DatabaseProbe, FrozenClock]


@pytest.fixture(params=["sqlite_url", "fresh_postgres_url"])
async def look(request: pytest.FixtureRequest) -> AsyncIterator[Look]:
    clock = FrozenClock()
    backend = connect(request.getfixturevalue(request.param), clock=clock)
    await backend.open()
    yield backend, DatabaseProbe(backend.store), clock
    await backend.close()


async def test_what_is_wrong_with_jobs_is_seen(look: Look) -> None:
    backend, looking, clock = look
    store = backend.store
    assert (await looking.jobs()).waiting == ()
    limited = Submission(type="report", queue="a", concurrency_key="k", concurrency_limit=1)
    await store.submit_many([limited, limited])
    await store.submit(Submission(type="late", delay_us=1_000_000))
    await store.submit(Submission(type="unknown", queue="b"))
    (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=5, queues=("a",)))
    assert (await looking.jobs()).workers == 1
    await store.workers.register([Presence(worker_id="idle", facts=WorkerFacts(queues=("b",)))])
    assert [worker.worker_id for worker in (await looking.jobs()).alive] == ["idle"]
    await store.pause("queue", "b")
    clock.advance(hours=2)
    seen = await looking.jobs()
    assert (seen.expired_leases, seen.overdue, seen.parked, seen.workers) == (1, 1, 1, 0)
    assert [(p.kind, p.name, p.waiting) for p in seen.pauses] == [("queue", "b", 1)]
    (waiting,) = seen.waiting
    assert (waiting.queue, waiting.type, waiting.oldest_age_us) == ("b", "unknown", 2 * 3_600_000_000)
    assert seen.served_types == frozenset()
    assert claim.job.type == "report"


async def test_a_key_that_expires_is_seen_and_one_that_does_not_is_not(look: Look) -> None:
    backend, looking, _ = look
    keys = ApiKeys(sql(backend.store).engine)
    soon = await keys.create_key("a", ("read",), expires_in_us=DAY_US)
    await keys.create_key("b", ("read",))
    revoked = await keys.create_key("c", ("read",), expires_in_us=DAY_US)
    await keys.revoke_key(revoked.record.prefix)
    assert [(k.prefix, k.expires_in_us) for k in await looking.expiring_keys()] == [(soon.record.prefix, DAY_US)]
    assert await looking.keks_used() == {}
    assert (await looking.outbox()).dead == 0


async def test_missing_migrations_are_seen(sqlite_url: str) -> None:
    backend = connect(sqlite_url)
    await backend.store.migrate()
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("DELETE FROM euterpe_migrations")
    await backend.store.open()
    seen = await DatabaseProbe(backend.store).database()
    assert (seen.missing_migrations, abs(seen.clock_skew_us) < 1_000_000) == (("0001 baseline",), True)
    await backend.store.close()


async def test_a_database_from_before_the_baseline_is_seen_with_what_to_do(sqlite_url: str) -> None:
    backend = connect(sqlite_url)
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE euterpe_migrations SET name = 'jobs' WHERE version = 1")
    await backend.store.open()
    seen = await DatabaseProbe(backend.store).database()
    assert (seen.too_new, seen.missing_migrations) == ("", ())
    assert "before its first release" in seen.too_old
    assert "remove the file" in seen.make_anew
    await backend.store.close()


@pytest.fixture
def own_database_url(postgres_url: str) -> Iterator[str]:
    """Transactions of tests beside this one are in another database."""
    name = f"doctor_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def test_what_is_wrong_with_a_postgres_server_is_seen(own_database_url: str) -> None:
    backend = connect(own_database_url)
    await backend.open()
    looking = DatabaseProbe(backend.store)
    async with await psycopg.AsyncConnection.connect(own_database_url) as other:
        await other.execute("ALTER TABLE inbox_jobs SET (autovacuum_enabled = false)")
        await other.commit()
        await other.execute("SELECT 1")
        seen = await looking.postgres()
    assert seen is not None
    assert seen.version >= 180000
    assert seen.longest_transaction_us > 0
    assert "idle in transaction" in seen.longest_transaction
    assert [table.name for table in seen.tables if not table.autovacuum] == ["inbox_jobs"]
    assert {"inbox_jobs", "euterpe_operations", "job_outbox_events"} <= {table.name for table in seen.tables}
    assert (seen.refused_tables, seen.invalid_indexes, seen.standby, seen.through_pooler) == ((), (), False, False)
    assert seen.wal_bytes is None or seen.wal_bytes > 0
    assert await looking.sqlite() is None
    await backend.close()


async def test_a_user_without_rights_is_told_which_tables_it_may_not_use(
    fresh_postgres_url: str, postgres_url: str
) -> None:
    schema = urlsplit(fresh_postgres_url).query.rpartition("=")[2]
    role = f"limited_{schema}"
    await connect(fresh_postgres_url).store.migrate()
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as owner:
        await owner.execute(f"CREATE ROLE {role}".encode())
        try:
            await owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
            await owner.execute(f"GRANT SELECT ON {schema}.inbox_jobs TO {role}".encode())
            found = await examine(load(None, {"ENGINE_URL": f"{fresh_postgres_url}&role={role}"}), None)
        finally:
            await owner.execute(f"DROP OWNED BY {role}".encode())
            await owner.execute(f"DROP ROLE {role}".encode())
    told = {finding.check: finding for finding in found}
    assert told["schema_rights"].severity is Severity.ERROR
    assert "euterpe_api_keys" in told["schema_rights"].message
    assert "could not be looked at" in told["migrations"].message, "what it cannot see, it does not call well"
    assert told["long_transactions"].severity is Severity.OK


def _opened_to_others(facts: SqliteFacts, path: Path) -> SqliteFacts:
    path.chmod(0o644)
    path.parent.chmod(0o755)
    return with_file(facts, path)


async def test_what_is_wrong_with_a_file_is_seen(sqlite_url: str, tmp_path: Path) -> None:
    backend = connect(sqlite_url)
    await backend.open()
    await backend.store.submit(Submission(type="t"))
    facts = await DatabaseProbe(backend.store).sqlite()
    assert facts is not None
    assert (facts.journal_mode, facts.pages > 10) == ("wal", True)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    seen = _opened_to_others(facts, path)
    assert (seen.writable, seen.open_to_others, seen.wal_bytes > 0) == (True, True, True)
    await backend.close()
    mounts = f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n"
    assert file_system_of(tmp_path / "jobs.db", mounts) == "nfs4"
    assert file_system_of(Path("/etc/x"), mounts) == "ext4"


async def test_a_redis_tells_how_it_is_and_one_that_is_not_there_does_not(redis_url: str) -> None:
    seen = await redis_facts(redis_url, RedisTuning())
    assert (seen.unreachable, seen.version >= (6, 2), seen.memory_used > 0) == ("", True, True)
    gone = await redis_facts("redis://127.0.0.1:1/0", RedisTuning(dial_timeout_s=0.2, max_retries=0))
    assert gone.unreachable


def test_the_machine_is_seen(tmp_path: Path) -> None:
    config_file = tmp_path / "euterpe.yml"
    config_file.write_text("redis:\n  password: hidden\n")
    config_file.chmod(0o644)
    key_file = tmp_path / "jobs.keks"
    key_file.write_text("x")
    key_file.chmod(0o644)
    config = load(str(config_file), {"ENGINE_URL": f"sqlite:///{tmp_path}/jobs.db"})
    seen = machine_facts(config, str(config_file))
    assert (seen.config_has_secrets, seen.config_open_to_others) == (True, True)
    assert seen.key_files_open_to_others == (str(key_file),)
    assert seen.disks[0].total > seen.disks[0].free > 0
    assert seen.missing_drivers == ()


def test_a_database_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/jobs.db", "postgresql://nobody@127.0.0.1:1/x"):
        found = asyncio.run(examine(load(None, {"ENGINE_URL": url}), None))
        (told,) = [finding for finding in found if finding.check == "database_reachable"]
        assert (told.severity, bool(told.next_step)) == (Severity.ERROR, True)
    assert not any(tmp_path.iterdir())


async def test_jobs_in_redis_are_looked_at_as_far_as_redis_tells(redis_url: str) -> None:
    told = {finding.check: finding for finding in await examine(load(None, {"ENGINE_URL": redis_url}), None)}
    assert told["database_reachable"].severity is Severity.OK
    assert told["redis_reachable"].severity is Severity.OK
    assert "append-only" in told["redis_persistence"].message, "the servers of tests keep none"
    assert "jobs" not in {check.partition("_")[0] for check in told}


def test_a_control_plane_has_no_database_to_look_at() -> None:
    with pytest.raises(Unsupported):
        DatabaseProbe(HttpStore("http://127.0.0.1:1"))
