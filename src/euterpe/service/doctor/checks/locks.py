"""Check for locks that shut writers out."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import LockFacts
from euterpe.model.diagnosis.finding import Check, Complaint, error


def held(facts: LockFacts) -> Complaint | None:
    if facts.file_holder:
        next_step = "end its transaction: a VACUUM, a backup or an open shell; `fuser` on the file names the processes"
        return error(f"nothing can be written: {facts.file_holder}", next_step)
    if not facts.holders:
        return None
    first = facts.holders[0]
    end_it = f"SELECT pg_terminate_backend({first.pid})" if first.pid else "SELECT * FROM pg_prepared_xacts"
    return error(f"others wait for a lock: {'; '.join(map(str, facts.holders))}", f"end its transaction, or {end_it}")


CHECKS: Final[tuple[Check[LockFacts], ...]] = (Check("locks", "no lock shuts writers out", held),)
