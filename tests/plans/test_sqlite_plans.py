"""On SQLite every hot statement goes by the index that was meant for it, with statistics and without."""

from __future__ import annotations

import re
import time

import apsw
import pytest

from euterpe.stores.sql.statements import numbered
from tests.faults.stores import engine_of, sqlite_path
from tests.plans.history import add_history

MANY = 30_000
BY_ID = "sqlite_autoindex_inbox_jobs_1"
BY_EVENT_ID = "sqlite_autoindex_job_outbox_events_1"
ROWID = "INTEGER PRIMARY KEY"

BY = {
    "pick": {"inbox_jobs_claim"},
    "take": {ROWID},
    "taken": {ROWID},
    "taken_large": {ROWID},
    "completing": {BY_ID},
    "complete": {BY_ID},
    "settle": {BY_ID},
    "told_jobs": {BY_ID},
    "close_attempt": {BY_ID},
    "heartbeat": {BY_ID},
    "advance": {BY_ID},
    "promote_due": {BY_ID, "inbox_jobs_due"},
    "spent_retries": {"inbox_jobs_due"},
    "next_due": {"inbox_jobs_due"},
    "over_lifetime": {"inbox_jobs_lifetime"},
    "expired_leases": {"inbox_jobs_state"},
    "running_over_lifetime": {"inbox_jobs_state"},
    "prunable": {BY_ID, "inbox_jobs_state"},
    "delete_jobs": {BY_ID},
    "search": {ROWID, "inbox_jobs_state"},
    "peek": {"inbox_jobs_claim"},
    "unpark": {BY_ID, "inbox_jobs_parked"},
    "free_keys": {"inbox_jobs_parked", "inbox_jobs_concurrency"},
    "resolve_dependent": {BY_ID},
    "waiting_dependents": {BY_ID, "job_dependencies_depends_on"},
    "claim_events": {ROWID, "job_outbox_events_due", "job_outbox_events_order"},
    "claim_events_of": {ROWID, "job_outbox_events_turns", "job_outbox_events_order"},
    "waiting_requesters": {"job_outbox_events_turns"},
    "next_event_due": {"job_outbox_events_due"},
    "settle_event": {BY_EVENT_ID},
    "heartbeat_event": {BY_EVENT_ID},
    "expired_event_leases": {"job_outbox_events_state"},
    "insert_job": set(),
    "insert_alike": set(),
    "stored_as": {BY_ID},
    "insert_event": set(),
}
_STEP = re.compile(
    r"^(?P<how>SCAN|SEARCH) (?P<table>\w+)(?: EXISTS)?"
    r"(?: USING (?:COVERING )?(?:INDEX )?(?P<by>INTEGER PRIMARY KEY|\w+))?"
)
_NOT_OURS = {"euterpe_pauses", "json_each", "t", "due", "l", "o", "k", "CONSTANT"}
"""Small tables, lists of parameters, and the results of subqueries."""


@pytest.mark.parametrize("size", ["empty", "fresh", "large"])
async def test_every_hot_statement_goes_by_its_index(sqlite_url: str, size: str) -> None:
    await engine_of(sqlite_url).migrate()
    if size != "empty":
        now_us = time.time_ns() // 1000
        await add_history(sqlite_url, MANY, now_us, every_table=True, analyzed=size == "large")
    connection = apsw.Connection(sqlite_path(sqlite_url))
    faults = []
    for name, allowed in BY.items():
        text = numbered("sqlite", name, None, "?")
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text.sql}", (None,) * len(text.names))]
        faults += [f"{name}: {step}" for step in steps if not _is_fine(step, allowed)]
    connection.close()
    assert not faults, "\n".join(faults)


def _is_fine(step: str, allowed: set[str]) -> bool:
    found = _STEP.match(step)
    if found is None or found["table"] in _NOT_OURS or step.startswith("SCAN (subquery"):
        return True
    return found["how"] == "SEARCH" and found["by"] in allowed
