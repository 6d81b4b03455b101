"""A disk that takes nothing more, for a while."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from tests.campaign.processes import with_children
from tests.faults.recorder import run, schema_of

DISK_FULL: Final = "53100"
TABLES: Final = ("inbox_jobs", "job_outbox_events", "idempotency_keys")
_REFUSING: Final = """
CREATE TABLE {schema}.refusing (code text);
CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE said text;
BEGIN
    SELECT code INTO said FROM {schema}.refusing LIMIT 1;
    IF said IS NOT NULL THEN
        RAISE EXCEPTION 'could not extend file: no space left on device' USING ERRCODE = said;
    END IF;
    RETURN NULL;
END $$;
"""
_TRIGGER: Final = """
CREATE TRIGGER refused BEFORE INSERT OR UPDATE ON {schema}.{table}
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse();
"""


@contextmanager
def no_file_grows(pids: list[int]) -> Iterator[None]:
    """The system refuses every write to a file by these processes and their children."""
    before = {}
    for pid in with_children(pids):
        with suppress(ProcessLookupError):
            before[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[pid][1]))
    try:
        yield
    finally:
        for pid in with_children(pids):  # also what was started meanwhile, and has inherited it
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before.get(pid, before[pids[0]]))


def prepare_refusals(url: str) -> None:
    """On Postgres the server itself raises the error; filling its disk would fill the machine's."""
    schema = schema_of(url)
    run(url, _REFUSING.format(schema=schema) + "".join(_TRIGGER.format(schema=schema, table=t) for t in TABLES))


@contextmanager
def statements_refused(url: str) -> Iterator[None]:
    run(url, f"INSERT INTO refusing VALUES ('{DISK_FULL}')")
    try:
        yield
    finally:
        run(url, "DELETE FROM refusing")
