"""Bugs at the start of a role."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_NOT_READY = "tests/cli/test_database_not_ready.py"

CAMPAIGN_BUGS = (
    Bug(
        "a_role_does_not_wait_for_a_database_that_is_starting",
        (Edit("service/readiness.py", "+ pause_s > patience_s", "+ pause_s > 0"),),
        f"{_NOT_READY}::test_a_role_waits_for_a_server_that_does_not_listen_yet[--role=outbox]",
        "ended before 'database unavailable, retrying'",
    ),
    Bug(
        "a_wrong_password_is_waited_for",
        (Edit("stores/sql/postgres/errors.py", 'frozenset({LOST_CLASS, "53"', 'frozenset({LOST_CLASS, "28", "53"'),),
        f"{_NOT_READY}::test_only_what_may_pass_by_itself_is_waited_for[InvalidPasswordError-bool]",
        "is False",
    ),
)
