"""A missing program must fail the run under CI, and must be said elsewhere."""

from __future__ import annotations

import pytest

from tests.webhook.tools import require


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)], ids=["ci", "elsewhere"]
)
def test_a_missing_program_fails_under_ci_and_is_said_elsewhere(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(outcome, match="node is not installed"):
        require("node")
