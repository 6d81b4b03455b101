"""Submitting, looking and steering."""

from __future__ import annotations

import json
from uuid import uuid4

from euterpe.backends.engines import Backend
from euterpe.model.claims.attempt_log import LogLine, stored_log
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.submitting.submission import Submission
from tests.cli.commands import Shell
from tests.cli.states import completed, dead_letters, settled, with_store


def test_a_job_is_submitted_looked_at_cancelled_and_run_again(shell: Shell) -> None:
    sent = shell.json(
        "submit", "report.render", '{"report_id": 7}', "--priority", "low", "--delay", "1h", "--tag", "team=a"
    )
    job_id = sent["job_id"]
    assert sent["state"] == "delayed"
    assert not sent["replayed"]

    seen = shell.json("status", job_id)
    assert (seen["state"], seen["priority"], seen["payload"]) == ("delayed", "low", {"report_id": 7})
    assert "due" in shell.ok("status", job_id)

    (listed,) = shell.json("jobs", "list", "--state", "delayed", "--tag", "team=a")["jobs"]
    assert listed["job_id"] == job_id
    assert shell.json("jobs", "list", "--tag", "team=b") == {"jobs": [], "cursor": None}

    assert shell.json("jobs", "cancel", job_id, "--yes") == {
        "jobs": [{"job_id": job_id, "state": "cancelled", "cancel_requested": False}]
    }
    (again,) = shell.json("jobs", "retry", job_id)["jobs"]
    assert again["new_job_id"] not in (None, job_id)
    assert shell.json("status", again["new_job_id"])["replay_of"] == job_id


def test_a_waiting_job_gets_another_priority_and_other_tags(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    job_id = shell.json("submit", "step", "--tag", "team=a")["job_id"]
    said = ("--priority", "high", "--tag", "team=b", "--tag", "n=1", "--correlation-id", "c7")
    assert shell.json("jobs", "update", job_id, *said) == {"jobs": [{"job_id": job_id, "state": "scheduled"}]}
    seen = shell.json("status", job_id)
    assert (seen["priority"], seen["tags"], seen["correlation_id"]) == ("high", {"team": "b", "n": "1"}, "c7")
    assert "NAME=VALUE" in shell.refused("jobs", "update", job_id, "--tag", "team", code=2)


def test_a_failed_job_and_no_other_is_sent_to_the_dead_letter(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    broken = Failed(Failure(Category.PERMANENT, "no such report"))
    (job_id,) = settled(shell.environ["ENGINE_URL"], [Submission(type="step")], broken)
    assert shell.json("jobs", "dead-letter", job_id, "--yes") == {"jobs": [{"job_id": job_id, "state": "dead_letter"}]}
    assert shell.json("status", job_id)["state"] == "dead_letter"
    waiting = shell.json("submit", "step")["job_id"]
    shell.refused("jobs", "dead-letter", waiting, "--yes", code=1)
    assert shell.json("status", waiting)["state"] == "scheduled"


def test_a_payload_comes_from_standard_input_and_a_key_finds_the_first_job(shell: Shell) -> None:
    first = shell.json("submit", "mail.send", "-", "--idempotency-key", "m1", stdin='{"to": "ada"}')
    second = shell.json("submit", "mail.send", '{"to": "ada"}', "--idempotency-key", "m1")
    assert second["job_id"] == first["job_id"]
    assert second["replayed"]
    complaint = shell.refused("submit", "mail.send", '{"to": "bob"}', "--idempotency-key", "m1", code=1)
    assert complaint.count("\n") == 1
    assert "m1" in complaint


def test_showing_a_job_tells_every_attempt_and_its_error(shell: Shell) -> None:
    (job_id,) = dead_letters(shell.environ["ENGINE_URL"], "report.render")
    shown = shell.json("jobs", "show", job_id)
    assert shown["state"] == "dead_letter"
    assert [(a["attempt"], a["outcome"], a["error"]["code"]) for a in shown["attempts"]] == [
        (1, "temporary", "no_paper")
    ]
    told = shell.ok("jobs", "show", job_id)
    assert "the printer is out of paper" in told
    assert "test:1" in told
    assert '  File "/srv/shop/printing.py", line 7, in render' in told.splitlines()


def test_showing_a_job_with_its_logs_tells_what_its_handler_logged(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    quiet = completed(shell.environ["ENGINE_URL"], Submission(type="quiet"))
    talking = shell.json("submit", "talks")["job_id"]

    async def settle(backend: Backend) -> None:
        (claim,) = await backend.store.claim(ClaimRequest(worker_id="test:1", limit=1))
        log = stored_log([LogLine(1_700_000_000_000_000, "info", "shop", "page 12 of 30")])
        await backend.store.settle([Report(claim, Success(), log=log)])

    with_store(shell.environ["ENGINE_URL"], settle)
    told = shell.ok("jobs", "show", talking, "--logs").splitlines()
    assert told[-2:] == ["log of attempt 1", "2023-11-14T22:13:20.000000Z  info     shop: page 12 of 30"]
    (log,) = shell.json("jobs", "show", talking, "--logs")["logs"]
    assert (log["attempt_id"], log["lines"][0]["message"]) == (f"{talking}:1", "page 12 of 30")
    assert "nothing is kept of its log" in shell.run("jobs", "show", quiet, "--logs").stderr
    assert "logs" not in shell.json("jobs", "show", talking)


def test_pages_go_on_where_the_last_one_ended(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    ids = [shell.json("submit", "step", "--correlation-id", f"c{n}")["job_id"] for n in range(3)]
    first = shell.json("jobs", "list", "--limit", "2")
    rest = shell.json("jobs", "list", "--limit", "2", "--cursor", first["cursor"])
    assert [job["job_id"] for job in first["jobs"] + rest["jobs"]] == ids[::-1]
    assert rest["cursor"] is None
    listing = shell.run("jobs", "list", "--limit", "2")
    assert f"--cursor {first['cursor']}" in listing.stderr  # beside the table, so that a pipe gets the rows alone
    assert len(listing.stdout.splitlines()) == 3


def test_refusals_are_one_line_with_exit_1_and_bad_usage_exit_2(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    shell.ok("migrate")
    nobody = str(uuid4())
    assert shell.refused("status", nobody, code=1) == f"euterpe: no job {nobody}\n"
    assert "is not an id" in shell.refused("status", "seven", code=2)
    assert "is not JSON" in shell.refused("submit", "t", "{oops", code=2)
    assert "did you mean 5s" in shell.refused("submit", "t", "--wait", "5", code=2)
    assert "delay" in shell.refused("submit", "t", "--delay", "soon", code=1)
    assert "add --yes" in shell.refused("jobs", "cancel", nobody, code=2)
    assert nobody in shell.refused("jobs", "cancel", nobody, "--yes", code=1)
    done = shell.run("jobs", "retry", nobody, "--json")
    assert done.returncode == 1
    assert nobody in json.loads(done.stdout)["jobs"][0]["error"]


def test_a_waiting_job_is_explained_in_a_sentence(shell: Shell) -> None:
    job_id = shell.json("submit", "report.render", "--delay", "1h")["job_id"]
    assert shell.ok("jobs", "why", job_id).startswith("It is delayed until ")
    told = shell.json("jobs", "why", job_id)
    assert (told["reason"], told["job_id"], told["state"]) == ("delayed", job_id, "delayed")
    shell.refused("jobs", "why", str(uuid4()), code=1)


def test_jobs_are_listed_by_a_query(shell: Shell) -> None:
    job_id = shell.json("submit", "report.render", "--tag", "team=a")["job_id"]
    shell.json("submit", "mail.send")
    (listed,) = shell.json("jobs", "list", "-q", "type:report.* tag.team:a created:<1h")["jobs"]
    assert listed["job_id"] == job_id
    assert shell.json("jobs", "list", "-q", job_id[:8], "--state", "scheduled")["jobs"][0]["job_id"] == job_id
    assert "'stat:failed' at character 1" in shell.refused("jobs", "list", "-q", "stat:failed", code=1)
    assert "in the query" in shell.refused("jobs", "list", "-q", "state:failed", "--state", "running", code=1)
