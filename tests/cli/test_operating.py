"""What operators ask and do: counts, what comes next, pauses, migrations, the outbox."""

from __future__ import annotations

import asyncio

import pytest

from euterpe.model.claims.presence import BreakerState, Presence, TrippedBreaker, WorkerFacts
from euterpe.model.cron import CronRow
from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import Queue, core_of
from tests.cli.commands import Shell
from tests.cli.states import completed, deliver_one


@pytest.mark.parametrize("engine", ["bare_sqlite_url", "bare_postgres_url"])
def test_a_database_is_migrated_once(engine: str, bare_shell: Shell, request: pytest.FixtureRequest) -> None:
    shell = Shell(bare_shell.folder, bare_shell.environ | {"ENGINE_URL": request.getfixturevalue(engine)})
    assert shell.json("migrate")["applied"]
    assert shell.json("migrate")["applied"] == []
    said = shell.ok("migrate")
    assert "up to date" in said
    assert said.startswith(("sqlite:///", "postgresql://***@"))  # a URL is shown without its login


def test_peek_shows_the_order_of_claims_and_a_pause_empties_it(shell: Shell) -> None:
    later = shell.json("submit", "mail", "--priority", "bulk")["job_id"]
    first = shell.json("submit", "mail", "--priority", "critical")["job_id"]
    other = shell.json("submit", "report", "--queue", "slow")["job_id"]
    assert [job["job_id"] for job in shell.json("peek")["jobs"]] == [first, later]
    assert [job["job_id"] for job in shell.json("peek", "--queues", "slow,default", "--limit", "2")["jobs"]] == [
        other,
        first,
    ]

    shell.ok("pause", "--type", "mail")
    assert shell.json("peek")["jobs"] == []
    shell.ok("pause", "--queue", "slow")
    assert shell.json("stats")["paused"] == [{"kind": "queue", "name": "slow"}, {"kind": "type", "name": "mail"}]
    shell.ok("resume", "--type", "mail")
    assert len(shell.json("peek")["jobs"]) == 2
    assert "one of them" in shell.refused("pause", "--queue", "a", "--type", "b", code=2)


def test_stats_count_jobs_by_queue_type_and_state(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    completed(url, Submission(type="mail"))
    shell.ok("submit", "report", "--queue", "slow")
    stats = shell.json("stats")
    assert stats["by_state"] == {"completed": 1, "scheduled": 1}
    assert stats["by_queue"] == {"default": {"completed": 1}, "slow": {"scheduled": 1}}
    assert stats["by_type"]["mail"] == {"completed": 1}
    assert stats["per_minute"]["completed"] == 1
    assert stats["oldest_age_seconds"]["slow"] >= 0
    table = shell.ok("stats").splitlines()
    assert table[0].split() == ["QUEUE", "SCHEDULED", "COMPLETED", "OLDEST"]
    assert [row.split()[:3] for row in table[1:3]] == [["default", "0", "1"], ["slow", "1", "0"]]


def test_workers_that_are_alive_are_listed_and_a_job_that_none_of_them_knows_says_so(shell: Shell) -> None:
    job_id = shell.json("submit", "letter", "--queue", "mail")["job_id"]
    assert shell.ok("jobs", "why", job_id).startswith("No worker is alive: ")
    assert shell.json("workers", "list") == {"workers": []}
    tripped = (TrippedBreaker("mail", "report", BreakerState.OPEN, 10_000_000, "ann", "store.example"),)
    facts = WorkerFacts(queues=("mail",), types=("report",), slots=4, running=1, host="h", breakers=tripped)

    async def register() -> None:
        async with Queue(shell.environ["ENGINE_URL"]) as queue:
            await core_of(queue).store.workers.register([Presence(worker_id="w:1", facts=facts)])

    asyncio.run(register())
    (worker,) = shell.json("workers", "list")["workers"]
    assert (worker["worker_id"], worker["types"], worker["slots"]) == ("w:1", ["report"], 4)
    (breaker,) = worker["breakers"]
    assert [breaker[name] for name in ("queue", "type", "requester", "place", "state")] == [
        "mail",
        "report",
        "ann",
        "store.example",
        "open",
    ]
    header, line = shell.ok("workers", "list").splitlines()
    assert header.split() == ["WORKER", "BUSY", "QUEUES", "TYPES", "UP", "SEEN", "STATE"]
    assert line.split()[:4] == ["w:1", "1/4", "mail", "report"]
    assert line.rstrip().endswith("breaker of report in queue mail of requester ann at store.example open")
    assert "none knows type 'letter'" in shell.ok("jobs", "why", job_id)


def test_webhook_events_are_listed_and_sent_again(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    job_id = completed(url, Submission(type="mail", callback_url="https://example.com/hook"))
    events = shell.json("outbox", "list", "--job", job_id)["events"]
    assert [event["type"] for event in events] == ["job.completed", "job.running"]
    assert all(event["state"] == "scheduled" for event in events)
    page = shell.json("outbox", "list", "--limit", "1")
    assert shell.json("outbox", "list", "--limit", "1", "--cursor", page["cursor"])["events"] == events[1:]
    delivered = deliver_one(url)
    assert delivered == events[1]["event_id"]  # of a job's events the first is sent first
    again = shell.json("outbox", "redeliver", delivered)
    assert (again["event_id"], again["state"]) == (delivered, "scheduled")
    assert "no event" in shell.refused("outbox", "redeliver", job_id, code=1)
    assert "`euterpe outbox list` shows them" in shell.refused("outbox", "redeliver", "nope", code=2)


def test_rates_of_keys_are_set_listed_and_removed(shell: Shell) -> None:
    assert shell.ok("rates", "set", "stripe", "100/s", "--burst", "20").strip() == "stripe: 100/s, burst 20"
    (found,) = shell.json("rates", "list")["rates"]
    assert (found["key"], found["interval_us"], found["burst"], found["tokens"]) == ("stripe", 10_000, 20, 20)
    assert "100/s" in shell.ok("rates", "list")
    assert "no rate any more" in shell.ok("rates", "remove", "stripe")
    assert "had no rate" in shell.ok("rates", "remove", "stripe")
    assert "10/s, 100/m" in shell.refused("rates", "set", "stripe", "fast", code=1)


def test_every_event_that_was_given_up_is_listed_with_its_reason_and_sent_again(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]
    completed(url, Submission(type="mail", callback_url="https://example.com/hook", requester_id="ada"))
    for _ in ("job.running", "job.completed"):
        deliver_one(url, gives_up="the receiver answered 500; no attempts are left")
    listing = shell.ok("outbox", "list", "--state", "dead_letter")
    assert listing.count("the receiver answered 500") == 2
    assert "or say --all" in shell.refused("outbox", "redeliver", code=2)
    assert "add --yes" in shell.refused("outbox", "redeliver", "--all", code=2)
    assert shell.json("outbox", "redeliver", "--all", "--requester", "bob", "--yes") == {"redelivered": 0}
    assert shell.json("outbox", "redeliver", "--all", "--yes") == {"redelivered": 2}
    assert shell.json("outbox", "list", "--state", "dead_letter")["events"] == []


def test_crons_are_listed_paused_edited_run_and_forgotten(shell: Shell) -> None:
    (shell.folder / "nightly.py").write_text(
        "import os\nimport euterpe\n\nqueue = euterpe.Queue(os.environ['ENGINE_URL'])\n\n\n"
        "@queue.cron('0 3 * * *', type='report')\nasync def report() -> None: ...\n"
    )
    name = "report 0 3 * * *"
    since = ("--since", "2026-01-05", "--until", "2026-01-07")
    assert "2 submitted, 0 were there" in shell.ok("cron", "run", name, "--app", "nightly:queue", *since)
    assert "0 submitted, 2 were there" in shell.ok("cron", "run", name, "--app", "nightly:queue", *since)
    assert "declares no cron 'other'" in shell.refused("cron", "run", "other", "--app", "nightly:queue", code=1)
    asyncio.run(declared(shell.environ["ENGINE_URL"], name))
    shell.ok("cron", "pause", name)
    shell.ok("cron", "edit", name, "0 4 * * *")
    (found,) = shell.json("cron", "list")["crons"]
    assert (found["expression"], found["paused"], found["edited"], found["next_tick"]) == (
        "0 4 * * *",
        True,
        True,
        None,
    )
    assert shell.ok("cron", "resume", "report").startswith(f"resumed {name}")
    assert "edited" in shell.ok("cron", "list")
    shell.ok("cron", "forget", name)
    assert "no cron" in shell.refused("cron", "pause", name, code=1)


async def declared(url: str, name: str) -> None:
    at = "0 3 * * *"
    row = CronRow(
        name=name, type="report", expression=at, tz="UTC", declared_expression=at, declared_tz="UTC", missed="skip"
    )
    async with Queue(url) as queue:
        await core_of(queue).store.crons.declare([row])
