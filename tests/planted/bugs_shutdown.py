"""Bugs in how a process ends that was told to stop."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_DEAD = "tests/worker/test_stopping_without_network.py"

SHUTDOWN_BUGS = (
    Bug(
        "what_ends_one_after_the_other_has_no_common_deadline",
        (
            Edit(
                "runtime/shutdown.py",
                "return min(at_most, max(SHORTEST_S, self._at - time.monotonic()))",
                "return at_most",
            ),
            Edit("runtime/shutdown.py", "CLOSE_S: Final = 2.0", "CLOSE_S: Final = 60.0"),
        ),
        f"{_DEAD}::test_sigterm_in_a_dead_network_ends_the_worker_soon_after_its_grace_time[twice]",
        ("the dead network kept it", "the worker ends"),
    ),
)
