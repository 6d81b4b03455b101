"""A real server that refuses our statements for a while: every role lives through it, and every job is completed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psycopg

from tests.cli.commands import Background, Shell
from tests.cli.conftest import Start
from tests.cli.test_roles import GOOD_BYE, address_of
from tests.cli.test_worker import until_begun
from tests.plain_http import NO_CERTIFICATES

REFUSALS = ("25006", "55P03")
"""A read-only phase and a lock timeout; tests/refused has all the others."""
TABLES = ("inbox_jobs", "job_outbox_events")
SETUP = """
CREATE TABLE refusing (code text);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE said text;
BEGIN
    SELECT code INTO said FROM refusing;
    IF said IS NOT NULL THEN RAISE EXCEPTION 'refused by the test' USING ERRCODE = said; END IF;
    RETURN NULL;
END $$;
"""


def test_every_role_lives_through_a_database_that_refuses_statements(
    fresh_postgres_url: str, bare_shell: Shell, start: Start
) -> None:
    shell = Shell(bare_shell.folder, bare_shell.environ | {"ENGINE_URL": fresh_postgres_url})
    key = shell.json("keys", "create", "--requester", "vesta", "--scope", "worker")["key"]
    worker = start(shell, "worker", "app:queue")
    outbox = start(shell, "--role=outbox")
    api = start(shell, "--role=api")
    worker.until_said("working on jobs")
    api.until_said(GOOD_BYE)
    job_id = shell.json("submit", "linger")["job_id"]
    until_begun(shell)
    dsn, _, schema = fresh_postgres_url.partition("?schema=")
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"SET search_path = {schema}")
        admin.execute(SETUP)
        for table in TABLES:
            admin.execute(
                f"CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON {table}"
                " FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
            )
        phases = [_refused(admin, code) for code in REFUSALS]
        for number, phase in enumerate([*phases, _renamed(admin, schema)], 1):
            with phase:
                _said(worker, "database unavailable: the worker", number)
                _said(outbox, "database unavailable: the dispatcher", number)
                _answers_503(api, key)
            _said(worker, "database available again: the worker", number)
            _said(outbox, "database available again: the dispatcher", number)
    (shell.folder / "go").touch()
    shell.json("submit", "greet", '{"name": "ada"}', "--wait", "20s")
    told = shell.json("submit", "greet", '{"name": "bob"}', "--wait", "20s")
    assert (told["state"], told["result"]) == ("completed", "hello bob")
    job = shell.json("jobs", "show", job_id)
    assert (job["state"], job["attempt"]) == ("completed", 1)
    for process in (worker, outbox, api):
        process.tell(signal.SIGTERM)
        assert process.ended() == 0
        assert "Traceback" not in "".join(process.err)
        told_lines = [json.loads(line) for line in process.err]
        assert not [line for line in told_lines if "exc_type" in line]


@contextmanager
def _refused(admin: psycopg.Connection, code: str) -> Iterator[None]:
    admin.execute("INSERT INTO refusing VALUES (%s)", (code,))
    yield
    admin.execute("DELETE FROM refusing")


@contextmanager
def _renamed(admin: psycopg.Connection, schema: str) -> Iterator[None]:
    admin.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_away")
    yield
    admin.execute(f"ALTER SCHEMA {schema}_away RENAME TO {schema}")


def _said(process: Background, words: str, times: int) -> None:
    process.until(lambda: sum(words in line for line in process.err) >= times, f"{words}, {times} times")


def _answers_503(api: Background, key: str) -> None:
    answer = httpx.post(
        f"{address_of(api)}/internal/worker/claim",
        json={"worker_id": "w", "streams": ["default"], "wait_ms": 0},
        headers={"Authorization": f"Bearer {key}"},
        timeout=20,
        verify=NO_CERTIFICATES,
    )
    assert answer.status_code == 503, answer.text
    assert answer.headers["retry-after"] == "1"
