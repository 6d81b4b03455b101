"""`euterpe prune` removes what retention no longer keeps, by the configuration, and asks first."""

from __future__ import annotations

from euterpe.model.submitting.submission import Submission
from tests.cli.commands import Shell
from tests.cli.states import completed, dead_letters


def test_prune_removes_what_the_configuration_no_longer_keeps(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    done = completed(url, Submission(type="mail"))
    (dead,) = dead_letters(url, "report")
    assert "nothing to remove" in shell.ok("prune", "--yes")
    assert "add --yes" in shell.refused("prune", code=2)
    shell.environ["RETENTION_COMPLETED"] = "0s"
    removed = shell.json("prune", "--yes")["removed"]
    assert (removed["jobs"], removed["events"]) == (1, 0)
    assert "pruned" in shell.refused("status", done, code=1)
    assert shell.json("status", dead)["state"] == "dead_letter"


def test_prune_refuses_a_retention_that_it_cannot_read(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    done = completed(url, Submission(type="mail"))
    shell.environ["RETENTION_COMPLETED"] = "soon"
    assert "retention.completed" in shell.refused("prune", "--yes", code=2)
    del shell.environ["RETENTION_COMPLETED"]
    assert shell.json("status", done)["state"] == "completed"
