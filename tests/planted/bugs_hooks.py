"""Bugs in what a user hangs around jobs, and in how results flow between them."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

HOOKS = "tests/queue/test_hooks.py"

HOOK_BUGS = (
    Bug(
        "middleware_that_forgets_the_handler_completes_the_job",
        (
            Edit(
                "worker/hooks.py",
                "    if not was_called:\n",
                "    if not was_called and not value:\n        return value\n    if not was_called:\n",
            ),
        ),
        f"{HOOKS}::test_hostile_middleware[never_calls-dead_letter-without awaiting call_next(), so the handler did not run]",
        "AssertionError",
    ),
    Bug(
        "a_submit_whose_error_middleware_swallowed_looks_stored",
        (
            Edit(
                "queue/submit_middleware.py", "        if self._error is not None:\n            raise self._error\n", ""
            ),
        ),
        f"{HOOKS}::test_submit_middleware_that_refuses_forgets_or_swallows_stores_nothing_in_silence",
        "IndexError",
    ),
)
