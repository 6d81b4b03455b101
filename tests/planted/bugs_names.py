"""Bugs in how a database is recognised: one from before the baseline, one of a newer release, and one that is just being made."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_MIGRATIONS = "tests/faults/test_migrations.py"
_BEFORE = f"{_MIGRATIONS}::test_a_database_from_before_the_baseline_is_refused_and_left_alone"

NAMING_BUGS = (
    Bug(
        "a_ledger_is_read_by_numbers_alone",
        (
            Edit(
                "migrations.py:missing",
                ".get(known[0].version) != known[0].name:",
                ".get(known[0].version) is None:",
            ),
        ),
        f"{_BEFORE}[sqlite-by_old_migrations]",
        "before its first release",
    ),
    Bug(
        "jobs_without_a_ledger_are_not_looked_for",
        (Edit("migrations.py:missing", "    if (applied or has_jobs) and", "    if applied and"),),
        f"{_BEFORE}[postgres-whose_ledger_had_another_name]",
        "already exists",
    ),
    Bug(
        "a_newer_database_is_used",
        (Edit("migrations.py:missing", "    if unknown:\n", "    if not known:\n"),),
        f"{_MIGRATIONS}::test_a_database_of_a_newer_release_is_refused_and_left_alone[sqlite]",
        "DID NOT RAISE",
    ),
)
