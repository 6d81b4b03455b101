"""On SQLite every hot statement goes by the index that was meant for it, with statistics and without."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.retention import Retention
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Clock
from euterpe.stores.sql.jobs import picking
from euterpe.stores.sql.program import Each, Row, Statement
from euterpe.stores.sql.reads.peek import peek
from euterpe.stores.sql.sqlite.engine import ApswSession, connect
from euterpe.stores.sql.sqlite.library import bound
from euterpe.stores.sql.statements import numbered
from euterpe.stores.sql.store import SqlStore
from tests.faults.stores import engine_of, opened, sqlite_path
from tests.plans.history import add_history
from tests.plans.scenario import live_a_day
from tests.plans.watching import shape_of

MANY = 30_000
BY_ID = "sqlite_autoindex_inbox_jobs_1"
BY_EVENT_ID = "sqlite_autoindex_job_outbox_events_1"
ROWID = "INTEGER PRIMARY KEY"

LINE = {"inbox_jobs_line", "euterpe_key_fronts_line", "inbox_jobs_running_keys", ROWID, "PRIMARY"}
BY = {
    "pick": LINE,
    "admit": {"inbox_jobs_line", "inbox_jobs_running_keys", "euterpe_key_fronts_name", ROWID},
    "hold_keys": {"euterpe_key_fronts_name"},
    "due_keys": {"euterpe_key_fronts_name"},
    "waiting_keys": {"inbox_jobs_line"},
    "take": {ROWID},
    "taken": {ROWID},
    "taken_large": {ROWID},
    "completing_uniform": {BY_ID},
    "complete": {ROWID},
    "complete_uniform": {ROWID},
    "complete_with_callbacks": {ROWID},
    "settle": {BY_ID},
    "callback_jobs": {BY_ID},
    "close_attempt": {BY_ID},
    "heartbeat": {BY_ID},
    "advance": {BY_ID},
    "promote_due": {BY_ID, "inbox_jobs_due"},
    "spent_retries": {"inbox_jobs_due"},
    "next_due": {"inbox_jobs_due", "inbox_jobs_line"},
    "over_lifetime": {"inbox_jobs_lifetime"},
    "expired_leases": {"inbox_jobs_state"},
    "running_over_lifetime": {"inbox_jobs_state"},
    "prunable": {BY_ID, "inbox_jobs_state"},
    "delete_jobs": {BY_ID},
    "search": {ROWID, "inbox_jobs_state"},
    "peek": LINE,
    "resolve_dependent": {BY_ID},
    "release_dependents": {ROWID},
    "waiting_dependents": {BY_ID, "job_dependencies_depends_on"},
    "claim_events": {ROWID, "job_outbox_events_due", "job_outbox_events_order"},
    "claim_events_of": {ROWID, "job_outbox_events_turns", "job_outbox_events_order"},
    "waiting_requesters": {"job_outbox_events_turns"},
    "next_event_due": {"job_outbox_events_due"},
    "settle_event": {BY_EVENT_ID},
    "heartbeat_event": {BY_EVENT_ID},
    "expired_event_leases": {"job_outbox_events_state"},
    "scan_edge": {"inbox_jobs_state"},
    "matching": {ROWID, "inbox_jobs_state"},
    "count_matching": {ROWID, "inbox_jobs_state"},
    "matching_group": {"inbox_jobs_failures"},
    "count_matching_group": {"inbox_jobs_failures"},
    "search_group": {"inbox_jobs_failures", BY_ID},
    "failing": {"inbox_jobs_failures"},
    "failure_group": {"inbox_jobs_failures"},
    "failure_sample": {"inbox_jobs_failures"},
    "running_operations": {"euterpe_operations_running"},
    "advance_operation": {"sqlite_autoindex_euterpe_operations_1"},
    "job_below": {ROWID},
    "ids_between": {BY_ID},
    "situation": {BY_ID, "euterpe_key_fronts_name", *LINE},
    "jobs_ahead": LINE,
    "running_of_key": {"inbox_jobs_running_keys"},
    "unfinished_dependencies": {BY_ID, "PRIMARY"},
    "insert_job": set(),
    "insert_uniform": set(),
    "stored_as": {BY_ID},
    "insert_event": set(),
    "insert_uniform_events": set(),
}
_STEP = re.compile(
    r"^(?P<how>SCAN|SEARCH) (?P<table>\w+)(?: EXISTS)?"
    r"(?: USING (?:COVERING )?(?:INDEX )?(?P<by>INTEGER PRIMARY KEY|\w+))?"
)
_NOT_OURS = {
    "euterpe_pauses",
    "euterpe_key_rates",
    "json_each",
    "a",
    "e",
    "s",
    "t",
    "w",
    "waiting",
    "starts",
    "names",
    "due",
    "f",
    "g",
    "l",
    "m",
    "o",
    "k",
    "n",
    "r",
    "CONSTANT",
}
"""Small tables, lists of parameters, and the results of subqueries."""


@pytest.mark.parametrize("size", ["empty", "fresh", "large"])
async def test_every_hot_statement_goes_by_its_index(
    sqlite_url: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the values of a day's work bound, in case that SQLite plans by the values too."""
    await engine_of(sqlite_url).migrate()
    if size != "empty":
        now_us = time.time_ns() // 1000
        await add_history(sqlite_url, MANY, now_us, every_table=True, analyzed=size == "large")
    seen = watch(monkeypatch)
    async with opened(sqlite_url) as store:
        await live_a_day(store)
        monkeypatch.setattr(picking, "PACKED_LIMIT", 4)
        monkeypatch.setattr(picking, "SMALL_BYTES", 3)
        await _live_on(store)
    connection = connect(sqlite_path(sqlite_url))
    faults = []
    for name, allowed in BY.items():
        text = numbered("sqlite", name, None, "?")
        for bound_values in seen[name].values():
            steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text.sql}", bound_values)]
            faults += [f"{name}: {step}" for step in steps if not _is_fine(step, allowed)]
    connection.close()
    assert not faults, "\n".join(faults)
    assert BY.keys() <= seen.keys()
    assert sum(len(seen[name]) for name in BY) > 1.5 * len(BY)
    assert all(any(value is not None for value in values) for name in BY for values in seen[name].values())


async def _live_on(store: SqlStore) -> None:
    """What is SQLite's own, and what a day on an empty database leaves out."""
    await store.engine.read(lambda: peek(["default"], 20))
    for _ in range(2):
        await store.submit(Submission(type="t", queue="large", payload=b"1234"))
    claims = await store.claim(ClaimRequest(worker_id="w", limit=5, queues=("large",)))
    await store.settle([Report(claim, Success(b"%d" % i)) for i, claim in enumerate(claims)])
    await store.sweeps.prune(Retention(completed_us=0))


def watch(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[tuple[object, ...], tuple[Any, ...]]]:
    """The statements that run from now on, with every kind of values that they run with."""
    seen: dict[str, dict[tuple[object, ...], tuple[Any, ...]]] = {}
    execute = ApswSession.execute

    def watched(session: ApswSession, statement: Statement, now: Clock) -> list[Row]:
        text = numbered("sqlite", statement.name, None, "?")
        given = statement.columns if isinstance(statement, Each) else statement.params
        if isinstance(statement, Each) and not text.batched:
            row = {name: column[0] for name, column in statement.columns.items()}
            values = tuple(now() if name == "now" else row[name] for name in text.names)
        else:
            values = bound(statement, text, now)
        seen.setdefault(statement.name, {})[shape_of(dict(given))] = values
        return execute(session, statement, now)

    monkeypatch.setattr(ApswSession, "execute", watched)
    return seen


def _is_fine(step: str, allowed: set[str]) -> bool:
    found = _STEP.match(step)
    if found is None or found["table"] in _NOT_OURS or step.startswith("SCAN (subquery"):
        return True
    return found["how"] == "SEARCH" and found["by"] in allowed
