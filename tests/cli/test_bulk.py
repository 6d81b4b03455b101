"""Acting on all that match, and failures by cause, as an operator types it."""

from __future__ import annotations

import json

from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.submitting.submission import Submission
from tests.cli.commands import Shell
from tests.cli.states import settled


def failed(url: str, job_type: str, message: str, count: int) -> list[str]:
    broken = Failed(Failure(Category.PERMANENT, message, "no_paper"))
    return settled(url, [Submission(type=job_type)] * count, broken)


def test_all_that_match_are_retried_and_the_operation_is_told(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    failed(url, "report.render", "out of paper", 3)
    failed(url, "invoice", "out of ink", 1)
    query = ("--query", "state:failed type:report.*")
    assert "Retry 3 jobs that match" in shell.refused("jobs", "retry", *query, code=2)
    assert "by --query" in shell.refused("jobs", "retry", code=2)
    told = shell.json("jobs", "retry", *query, "--yes")
    assert (told["state"], told["done"], told["total"], told["failed"]) == ("completed", 3, 3, 0)
    assert len(shell.json("jobs", "list", "--state", "scheduled")["jobs"]) == 3
    assert shell.json("operations", "list")["operations"] == [told]
    assert shell.json("operations", "show", told["operation_id"]) == told
    assert "has acted on all" in shell.refused("operations", "cancel", told["operation_id"], code=1)

    line = shell.ok("jobs", "cancel", "-q", "type:report.*", "-y")
    assert "cancel completed: 3 of 3 jobs done" in line
    assert "1 of 1 job done" in shell.ok("jobs", "replay", "-q", "state:failed", "-y")


def test_one_cause_is_exported_and_replayed(sqlite_shell: Shell) -> None:
    url = sqlite_shell.environ["ENGINE_URL"]
    gone = failed(url, "report", "order 17 is gone", 2) + failed(url, "report", "order 4 is gone", 1)
    failed(url, "report", "no template", 1)
    groups = {group["count"]: group for group in sqlite_shell.json("failures", "list")["groups"]}
    assert set(groups) == {3, 1}
    cause = groups[3]["fingerprint"]
    shown = sqlite_shell.ok("failures", "list")
    assert cause in shown
    assert "no_paper: order 4 is gone" in shown
    lines = sqlite_shell.ok("failures", "export", cause).splitlines()
    assert {json.loads(line)["job_id"] for line in lines} == set(gone)
    assert "not a fingerprint" in sqlite_shell.refused("failures", "export", "x", code=2)
    assert sqlite_shell.json("failures", "replay", cause, "--yes")["done"] == 3
    (fresh, *_) = sqlite_shell.json("jobs", "list", "--state", "scheduled")["jobs"]
    assert fresh["replay_of"] in gone


def test_an_operation_can_be_left_to_the_processes_of_the_queue(sqlite_shell: Shell) -> None:
    failed(sqlite_shell.environ["ENGINE_URL"], "report", "x", 1)
    left = sqlite_shell.json("jobs", "retry", "-q", "state:failed", "--yes", "--detach")
    assert (left["state"], left["done"]) == ("running", 0)
    assert sqlite_shell.json("operations", "cancel", left["operation_id"])["state"] == "cancelled"
