"""Most tests of this folder run their commands in forks of a warm process. What they see is what a user sees."""

from __future__ import annotations

import pytest

from tests.cli.commands import Shell


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["stats", "--json"], None),
        (["jobs", "list"], None),
        (["submit", "mail", "-", "--key", "once", "--json"], '{"to": "bob"}'),
        (["dlq", "purge"], "n\n"),
        (["--help"], None),
        (["--config=missing.yaml", "nonsense"], None),
        (["jobs", "show", "unknown"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_says_the_same_as_one_that_starts_from_nothing(
    sqlite_shell: Shell, arguments: list[str], stdin: str | None
) -> None:
    cold = sqlite_shell.run_cold(*arguments, stdin=stdin)
    warm = sqlite_shell.run(*arguments, stdin=stdin)
    told = [
        (done.returncode, done.stdout.replace('"replayed": true', '"replayed": false'), done.stderr)
        for done in (cold, warm)
    ]
    assert told[0] == told[1]
