"""A lock that shuts writers out is named: by the doctor, by /readyz, in the log and in the error of a call."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest

from euterpe.config.loading import load
from euterpe.model.diagnosis.finding import Severity
from euterpe.model.errors import DatabaseLocked
from euterpe.model.submitting.submission import Submission
from euterpe.observe.logs import AllowList
from euterpe.runtime.outage import Outage
from euterpe.service.doctor.doctor import examine
from euterpe.stores.sql.postgres import connections, lock_holders, session
from euterpe.stores.sql.postgres.lock_holders import first_words
from euterpe.stores.sql.submitting import unit_commits
from tests.faults.stores import opened
from tests.faults.test_locked_databases import locked
from tests.patience import PATIENCE_S
from tests.server.plane import anonymous, running_plane


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 s, 7 s and 2 s in earnest."""
    monkeypatch.setattr(unit_commits, "OUTAGE_WAIT_S", 3.0)
    monkeypatch.setattr(session, "LOCK_WAIT_S", 1.5)
    monkeypatch.setattr(connections, "LONG_S", 0.2)
    monkeypatch.setattr(lock_holders, "LATE_S", 0.1)
    monkeypatch.setattr(lock_holders, "TABLE_LOCK_US", 0)


async def test_readyz_names_the_holder_of_a_lock_until_it_goes(database: str) -> None:
    async with running_plane(database) as plane, anonymous(plane.base_url) as client:
        assert (await client.get("/readyz")).status_code == 200
        with locked(database):
            answer = await client.get("/readyz")
            assert answer.status_code == 503, answer.text
            shown = answer.json()["checks"]["store"]
            assert "inbox_jobs: LOCK TABLE" in shown or "another process has held the write lock for" in shown
            assert "jobs.db" not in shown
        assert (await client.get("/readyz")).status_code == 200


async def test_readyz_answers_while_another_write_waits_for_the_lock(sqlite_database: str) -> None:
    async with running_plane(sqlite_database) as plane, anonymous(plane.base_url) as client:
        with locked(sqlite_database) as let_go:
            waiting = asyncio.create_task(plane.store.pause("queue", "q"))
            for _ in range(2):
                answer = await client.get("/readyz")
                assert "another process has held the write lock for" in answer.json()["checks"]["store"], answer.text
            let_go()
            await waiting


async def test_the_doctor_names_the_holder_of_a_lock(database: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with locked(database):
        found = await examine(load(None, {"ENGINE_URL": database}), None)
    told = {finding.check: finding for finding in found}
    lock = told["locks"]
    assert lock.severity is Severity.ERROR
    if database.startswith("postgresql"):
        assert "idle in transaction, transaction open for" in lock.message
        assert "pg_terminate_backend" in (lock.next_step or "")
        names = [finding.check for finding in found]
        blind = [finding.check for finding in found if "could not be looked at" in finding.message]
        assert blind
        assert names.index("locks") < min(map(names.index, blind)), "what must be fixed stands above"
    found = await examine(load(None, {"ENGINE_URL": database}), None)
    assert {finding.check: finding for finding in found}["locks"].severity is Severity.OK


async def test_a_refused_submit_and_the_log_name_the_session(
    postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with opened(postgres_database) as store:
        with (
            locked(postgres_database),
            pytest.raises(DatabaseLocked, match=r"backend \d+ .* holds .*inbox_jobs: LOCK") as refused,
        ):
            await asyncio.wait_for(store.submit(Submission(type="t")), PATIENCE_S)
    assert "inbox_jobs: LOCK TABLE" in _blocked_by(caplog, "a statement waits for a lock")
    Outage(logging.getLogger("test"), "the worker").pause_after(refused.value, 3)
    said = "database unavailable: the worker is retrying, 3 finished are kept"
    assert _blocked_by(caplog, said) == refused.value.holder != ""


def _blocked_by(caplog: pytest.LogCaptureFixture, message: str) -> str:
    record = next(record for record in caplog.records if record.getMessage() == message)
    assert AllowList(strict=True).filter(record)
    return str(vars(record)["euterpe_fields"]["blocked_by"])


async def test_the_holder_of_a_single_row_is_named_and_leaves_the_process_ready(
    postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    dsn, _, schema = postgres_database.partition("?schema=")
    async with opened(postgres_database) as store:
        await store.submit(Submission(type="keyed", idempotency_key="k"))
        with psycopg.connect(dsn, application_name="billing") as holder:
            holder.execute(f"DELETE FROM {schema}.idempotency_keys WHERE request_hash <> 'hunter2'")
            await store.ping()
            with pytest.raises(
                DatabaseLocked, match=rf"backend {holder.info.backend_pid} \(billing, idle in"
            ) as refused:
                await store.submit(Submission(type="keyed", idempotency_key="k"))
            assert "hunter2" not in str(refused.value) + caplog.text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("LOCK TABLE  inbox_jobs\n IN ACCESS EXCLUSIVE MODE", "LOCK TABLE inbox_jobs IN ACCESS EXCLUSIVE MODE"),
        ("ALTER ROLE a PASSWORD 'hunter2'", "ALTER ROLE a PASSWORD ..."),
        ("SELECT $$hunter2$$", "SELECT ..."),
        ("UPDATE t SET a = 'x\\' , b = 'hunter2'", "UPDATE t SET a = ..."),
        ("/* hunter2 */ SELECT 1", " ..."),
        ("UPDATE cards SET pin = 4711 WHERE id = 3.5", "UPDATE cards SET pin = ? WHERE id = ?"),
    ],
)
def test_a_query_is_shown_without_its_literals(query: str, shown: str) -> None:
    assert first_words(query) == shown


def test_a_long_query_is_cut() -> None:
    assert len(first_words("x" * 1000)) < 100
