"""Bugs of what is shipped: the wrong extra, a right too many, a worker that nobody sees stop, a schema that stays."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

OPERATING = "tests/server/test_operating.py"
EXTRAS = "tests/packaging/test_extras.py"
PLATFORMS = "tests/packaging/test_platforms.py"
FITTING = "tests/fitting/test_pytest_plugin.py"

SHIPPING_BUGS = (
    Bug(
        "anybody_who_submits_may_pause_everybody",
        (
            Edit(
                "admin_routes",
                '"Pause a queue or a job type",\n            {200: paused},\n            Scope.ADMIN,',
                '"Pause a queue or a job type",\n            {200: paused},\n            Scope.SUBMIT,',
            ),
        ),
        f"{OPERATING}::test_a_pause_over_http_holds_for_every_worker_and_needs_an_admin[sqlite]",
        "AccessRefused",
    ),
    Bug(
        "any_failed_import_is_a_missing_extra",
        (
            Edit(
                "needing",
                "        if not bringing:\n            raise\n",
                "        bringing = bringing or ['cli']\n",
            ),
        ),
        f"{EXTRAS}::test_an_import_that_fails_for_another_reason_is_no_missing_extra",
        "MissingExtra",
    ),
    Bug(
        "a_stopped_worker_is_seen_on_linux_alone",
        (Edit("is_stopped", "if PROC.exists() else state_by_ps(pid)", 'if PROC.exists() else ""'),),
        f"{PLATFORMS}::test_a_stopped_worker_is_seen_with_and_without_proc",
        "is_stopped",
    ),
    Bug(
        "the_schema_of_a_test_stays_in_the_users_database",
        (Edit("throwaway_schema", "f'DROP SCHEMA IF EXISTS \"{schema}\" CASCADE'", "'SELECT 1'"),),
        f"{FITTING}::test_code_with_its_own_transaction_is_tested_on_the_users_own_postgres",
        "assert",
    ),
)
