"""What the explorer's programs take for granted, and where the SQL says so. A fact that a text does not bear out is
none, and the explorer finds what it costs."""

from __future__ import annotations

from typing import Final

from tests.protocol.programs import Facts
from tests.protocol.sql_steps import conditions_of, parts_of

CONDITIONS: Final[dict[str, list[tuple[str, str, str]]]] = {
    "a plain end asks for the version": [("turn", "settled", "j.claim_version = i.claim_version")],
    "a plain end asks for the lease": [("turn", "settled", "j.lease_expires_at IS NOT NULL")],
    "a plain end leaves keys alone": [("turn", "settled", "j.concurrency_key IS NULL")],
    "a claim asks for the state": [
        ("turn", "taken", "j.state = 'scheduled'"),
        ("turn_around", "taken", "j.state = 'scheduled'"),
    ],
    "a claim asks for the priority": [
        ("turn", "taken", "j.priority = n.priority"),
        ("turn_around", "taken", "j.priority = n.priority"),
    ],
    "a settle asks for the version": [
        ("settle", "settled", "j.claim_version = i.claim_version"),
        ("settle_completed", "", "j.claim_version = i.claim_version"),
    ],
    "a settle asks for the lease": [
        ("settle", "settled", "j.lease_expires_at IS NOT NULL"),
        ("settle_completed", "", "j.lease_expires_at IS NOT NULL"),
    ],
    "who leaves takes its own run away": [
        ("end_waiting", "gone", "r.jobs = 1"),
        ("update_metadata", "gone", "r.jobs = 1"),
    ],
}
"""Statement, part and condition: all of them must be there."""
TEXTS: Final[dict[str, list[tuple[str, str, str]]]] = {
    "stops at a held run": [
        ("turn", "bound", "WHERE l.times = 1"),
        ("turn", "held_single", "(f.before >= (SELECT b.before FROM bound AS b)) IS NOT TRUE"),
        ("turn", "held", "(l.seen >= b.before) IS NOT TRUE"),
    ],
    "the last of a longer run is not single": [
        ("turn", "shortened", "was_longer = true"),
        ("turn", "ahead", "r.was_longer"),
        ("turn", "held_long", "r.was_longer"),
        ("turn", "held_single", "NOT f.is_long"),
    ],
    "a longer run that is held is not passed over": [("turn", "ahead", "((r.jobs > 1 OR r.was_longer) OR NOT (r.xmax")],
    "asks again after jobs that are gone": [("turn", "ends", "taken.jobs < (SELECT COUNT(*) FROM numbers)")],
    "a claim counts keys": [("turn", "keys", "SET running = k.running + x.taken, in_line = k.in_line - x.gone")],
    "rows are written in the transaction of their run": [("turn", "gone", "DELETE"), ("turn", "taken", "UPDATE")],
    "a settle enters the line": [("settle", "line", "INSERT INTO euterpe_line")],
    "a new priority enters the line": [("update_metadata", "line", "INSERT INTO euterpe_line")],
    "a submit enters the line": [
        (statement, "line", "INSERT INTO euterpe_line") for statement in ("insert_one", "insert_uniform", "insert_job")
    ],
    "an end frees its key": [("hold_keys", "", "k.running - CAST(excluded.passed_until AS integer))")],
    "strays of a key are dropped": [("recount_line", "gone", "DELETE FROM euterpe_line AS r USING strays AS s")],
    "admission keeps to the limit": [
        ("admit", "asked", "(a.in_line + a.place > a.places) IS TRUE AS lacks_place"),
        ("admit", "admitted", "NOT a.lacks_place"),
        ("admit_in_order", "asked", "(b.in_line + b.place > b.places) IS TRUE AS lacks_place"),
        ("admit_in_order", "admitted", "NOT a.lacks_place"),
    ],
}
"""Statement, part and words of it."""
ENTERING: Final = (
    "insert_one",
    "insert_uniform",
    "insert_job",
    "settle",
    "promote_due",
    "release_dependents",
    "resolve_dependent",
    "retry_failed",
    "update_metadata",
)
"""Every statement that makes a job scheduled."""


LEAVING: Final = ("end_waiting", "update_metadata")
"""Statements by which a job leaves the line otherwise than by a claim; they hold its row, and not its key."""
BY_THEIR_ABSENCE: Final = ("every entry is a new run", "who leaves a key's own line holds the key")


def _deletions(statement: str) -> list[str]:
    return [text for text in parts_of(statement).values() if text.startswith("DELETE")]


def facts_of_the_code() -> Facts:
    found = {
        fact
        for fact, places in CONDITIONS.items()
        if all(condition in conditions_of(statement, part) for statement, part, condition in places)
    }
    found |= {
        fact
        for fact, places in TEXTS.items()
        if all(words in parts_of(statement).get(part, "") for statement, part, words in places)
    }
    if all("ON CONFLICT" not in parts_of(statement).get("line", "") for statement in ENTERING):
        found.add("every entry is a new run")
    if all("euterpe_key_line" not in text for statement in LEAVING for text in _deletions(statement)):
        found.add("who leaves a key's own line holds the key")
    return frozenset(found)


EVERY_FACT: Final = frozenset({*CONDITIONS, *TEXTS, *BY_THEIR_ABSENCE})
