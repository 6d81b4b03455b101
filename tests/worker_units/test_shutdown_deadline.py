"""Whoever ends, ends by the one deadline of the process, whatever time of its own it would take."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from euterpe.runtime.shutdown import SHORTEST_S, ShutdownDeadline


def test_parts_that_end_one_after_the_other_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("euterpe.runtime.shutdown.time", SimpleNamespace(monotonic=lambda: now))
    deadline = ShutdownDeadline()
    assert deadline.left_s(60.0) == 60.0
    deadline.set_in(2.0)
    assert deadline.left_s(60.0) == 2.0
    assert deadline.left_s(0.5) == 0.5
    now = 101.5
    assert deadline.left_s(60.0) == 0.5
    now = 200.0
    assert deadline.left_s(60.0) == SHORTEST_S
    deadline.clear()
    assert deadline.left_s(60.0) == 60.0
