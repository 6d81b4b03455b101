"""What must hold of the stored rows after every step, said once for all histories."""

from __future__ import annotations

from typing import Any

import msgspec

from euterpe.model.state import INITIAL, MOVES, State
from tests.stateful.oracle import Oracle

Row = dict[str, Any]


def attempts_agree(oracle: Oracle, rows: list[Row]) -> None:
    closed: dict[str, list[tuple[Any, ...]]] = {job_id: [] for job_id in oracle.jobs}
    for row in rows:
        closed[row["job_id"]].append((row["claim_version"], row["attempt"], row["state"]))
    for job in oracle.jobs.values():
        assert closed[job.id] == [(version, attempt, state) for version, attempt, _, state in job.closed]


def events_agree(oracle: Oracle, rows: list[Row]) -> None:
    told = [(row["job_id"], row["sequence"], row["type"]) for row in rows]
    assert sorted(told) == sorted(oracle.events)
    assert len({(job_id, sequence) for job_id, sequence, _ in told}) == len(told)
    for row in rows:
        body = msgspec.json.decode(row["body"])
        assert (body["event_id"], body["sequence"], body["type"]) == (row["id"], row["sequence"], row["type"])


def moves_are_legal(before: dict[str, str], rows: dict[str, Row]) -> None:
    for job_id, row in rows.items():
        state, earlier = State(row["state"]), before.get(job_id)
        if earlier is None:
            assert state in INITIAL or row["dependency"] is not None
        elif earlier != state:
            assert (State(earlier), state) in MOVES, f"{earlier} -> {state}"
        assert row["attempt_count"] <= row["max_attempts"]
        assert (state is State.RUNNING) == (row["lease_expires_at"] is not None)
        before[job_id] = row["state"]


def nobody_is_early_or_stranded(oracle: Oracle, rows: dict[str, Row], edges: list[Row]) -> None:
    """A job that failed with one of those it waits for, and that an operator retries, does not wait for the others."""
    needs: dict[str, list[str]] = {}
    for edge in edges:
        needs.setdefault(edge["job_id"], []).append(rows[edge["depends_on"]]["state"])
    ends = {"completed", "failed", "dead_letter", "cancelled"}
    for job_id, states in needs.items():
        row = rows[job_id]
        finished = [state for state in states if state in ends]
        if row["state"] == "pending":
            assert len(finished) < len(states), "stranded: all it waits for has ended"
            assert row["dependency"] != "after_any" or not finished, "stranded: one has ended"
        elif row["started_at"] is not None and row["dependency"] != "after_any":
            all_ended = len(finished) == len(states)
            assert all_ended or oracle.jobs[job_id].waits_no_more, "early: it ran before all it waits for had ended"
