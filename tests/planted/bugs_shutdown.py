"""Bugs in how a process ends that was told to stop."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

SHUTDOWN_BUGS = (
    Bug(
        "what_ends_one_after_the_other_has_no_common_deadline",
        (
            Edit(
                "ShutdownDeadline.left_s",
                "return min(at_most, max(SHORTEST_S, self._at - time.monotonic()))",
                "return at_most",
            ),
        ),
        "tests/worker_units/test_shutdown_deadline.py::test_parts_that_end_one_after_the_other_share_one_deadline",
        "assert 60.0 == 2.0",
    ),
)
