"""Checks of any database: its schema and its clock."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import DatabaseFacts
from euterpe.model.diagnosis.finding import Check, Complaint, error, warning
from euterpe.service.doctor.wording import listed

SKEW_US: Final = (1_000_000, 30_000_000)


def migrations(facts: DatabaseFacts) -> Complaint | None:
    if facts.too_old:
        return error(facts.too_old, facts.make_anew)
    if facts.too_new:
        return error(facts.too_new, "upgrade euterpe-queue here, or use the release that migrated the database")
    if facts.missing_migrations:
        return error(f"migrations are missing: {listed(list(facts.missing_migrations))}", "euterpe migrate")
    return None


def clock_skew(facts: DatabaseFacts) -> Complaint | None:
    skew = abs(facts.clock_skew_us)
    if skew < SKEW_US[0]:
        return None
    side = "ahead of" if facts.clock_skew_us > 0 else "behind"
    complain = error if skew >= SKEW_US[1] else warning
    return complain(
        f"the database's clock is {skew / 1e6:.1f} s {side} this machine's",
        "set both by NTP; leases go by the database's clock, signatures of webhooks by this machine's",
    )


CHECKS: Final[tuple[Check[DatabaseFacts], ...]] = (
    Check("migrations", "the schema is up to date", migrations),
    Check("clock_skew", "the clocks of database and machine agree", clock_skew),
)
