"""Bugs in how the queue's tables are named and migrated beside the application's own."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_NAMES = "tests/faults/test_prefixed_names.py"

NAMING_BUGS = (
    Bug(
        "a_new_database_gets_the_old_names_first",
        (Edit("stores/sql/migrations.py", "    if not applied:\n", "    if applied is None:\n"),),
        f"{_NAMES}::test_a_new_queue_lives_beside_tables_of_the_application_with_the_same_plain_names[postgres]",
        "already exists",
    ),
    Bug(
        "an_applications_ledger_is_taken_for_ours",
        (Edit("stores/sql/migrations.py", " WHERE version = 1 AND name = 'jobs'", " WHERE version = 1"),),
        f"{_NAMES}::test_a_ledger_of_migrations_that_is_the_applications_is_neither_read_nor_renamed"
        "[sqlite-our_columns]",
        ("the database has migration", "no such view: job_attempts"),
    ),
)
