"""Dead letters: out to a file, back into the queue, and away."""

from __future__ import annotations

import json

from euterpe.model.submitting.submission import Submission
from tests.cli.commands import Shell
from tests.cli.states import completed, dead_letters


def test_dead_letters_are_listed_exported_replayed_and_purged(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    report, mail, other = dead_letters(url, "report", "mail", "report")

    assert {job["job_id"] for job in shell.json("dlq", "list")["jobs"]} == {report, mail, other}
    assert [job["job_id"] for job in shell.json("dlq", "list", "--type", "mail")["jobs"]] == [mail]

    shell.ok("dlq", "export", "--type", "report", "--out", "dead.jsonl")
    lines = (shell.folder / "dead.jsonl").read_text().splitlines()
    exported = {document["job_id"]: document for document in map(json.loads, lines)}
    assert set(exported) == {report, other}
    assert exported[report]["attempts"][0]["error"]["message"] == "the printer is out of paper"
    assert json.loads(shell.ok("dlq", "export", mail))["job_id"] == mail

    (replayed,) = shell.json("dlq", "replay", mail)["jobs"]
    fresh = shell.json("status", replayed["new_job_id"])
    assert (fresh["state"], fresh["replay_of"], fresh["attempt"]) == ("scheduled", mail, 0)

    assert set(shell.json("dlq", "purge", "--type", "report", "--yes")["purged"]) == {report, other}
    assert "pruned" in shell.refused("status", report, code=1)
    assert [job["job_id"] for job in shell.json("dlq", "list")["jobs"]] == [mail]


def test_a_second_replay_makes_no_second_set(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    dead = dead_letters(url, "report", "mail")
    first = {job["job_id"]: job for job in shell.json("dlq", "replay", "--all")["jobs"]}
    assert set(first) == set(dead)
    assert not any(job["replayed_before"] for job in first.values())
    second = {job["job_id"]: job for job in shell.json("dlq", "replay", "--all")["jobs"]}
    assert {dead_id: job["new_job_id"] for dead_id, job in second.items()} == {
        dead_id: job["new_job_id"] for dead_id, job in first.items()
    }
    assert all(job["replayed_before"] for job in second.values())
    assert len(shell.json("jobs", "list", "--state", "scheduled")["jobs"]) == 2
    told = shell.ok("dlq", "replay", dead[0])
    assert told == f"{dead[0]}  replayed before, as job {first[dead[0]]['new_job_id']}\n"

    (insisted,) = shell.json("jobs", "retry", dead[0])["jobs"]
    assert insisted["new_job_id"] not in (None, first[dead[0]]["new_job_id"])


def test_purging_asks_first_and_takes_dead_letters_only(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    (dead,) = dead_letters(url, "report")
    good = completed(url, Submission(type="mail"))
    assert "say --all" in shell.refused("dlq", "purge", code=2)
    assert "add --yes" in shell.refused("dlq", "purge", "--all", code=2)
    assert "not a dead letter" in shell.refused("dlq", "purge", dead, good, "--yes", code=1)
    assert len(shell.json("dlq", "list")["jobs"]) == 1  # all or none: the good one kept the dead one in
    assert shell.json("dlq", "purge", "--older-than", "1h", "--yes")["purged"] == []
    assert shell.json("dlq", "purge", "--all", "--yes")["purged"] == [dead]
    assert shell.json("status", good)["state"] == "completed"


def test_replaying_all_runs_no_dependent_before_its_dependency(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    (charge,) = dead_letters(url, "charge")
    mail = shell.json("submit", "mail", "--depends-on", charge)["job_id"]
    assert shell.json("status", mail)["state"] == "dead_letter"
    told = {job["job_id"]: job for job in shell.json("dlq", "replay", "--all")["jobs"]}
    assert told[charge]["dependents"] == [told[mail]["new_job_id"]]
    assert told[mail]["replayed_before"]
    assert shell.json("status", told[mail]["new_job_id"])["depends_on"] == [told[charge]["new_job_id"]]
    assert [job["type"] for job in shell.json("jobs", "list", "--state", "scheduled")["jobs"]] == ["charge"]
