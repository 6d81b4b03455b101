"""What the log of a real worker tells of attempts that did not succeed: which, whose, when it is tried again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.observe.logs import AllowList
from euterpe.queue.queue import Queue
from tests.worker.floor import Floor, WorkerProcess, in_state, until
from tests.worker.inline import working

ALL_KEYS = {
    *("job_id", "type", "queue", "worker_id", "claim_version", "attempt"),
    *("namespace", "error_code", "category", "state"),
}


@pytest.fixture(autouse=True)
def _a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "media")
    monkeypatch.setenv("POD_NAME", "worker-7")


async def told_of(worker: WorkerProcess, job_id: str, count: int = 1) -> list[dict[str, Any]]:
    def lines() -> list[dict[str, Any]]:
        return [line for line in worker.log() if line.get("job_id") == job_id]

    await until(lambda: len(lines()) >= count, f"{count} lines about the job")
    return lines()


async def test_a_failed_attempt_is_a_warning_with_the_next_try_and_the_dead_letter_an_error(
    client: Queue, floor: Floor
) -> None:
    worker = await floor.start().working()
    job = await client.submit("misbehave", {"how": "value_error"}, max_attempts=2)
    ended = await in_state(client, job, State.DEAD_LETTER)
    first, last = await told_of(worker, job.id, 2)
    assert first["msg"] == "an attempt failed; the job is tried again"
    assert last["msg"] == "an attempt failed, and it was the last: the job is in the dead letter"
    assert first.keys() & last.keys() >= ALL_KEYS
    assert (first["level"], first["attempt"], first["claim_version"]) == ("warning", 1, 1)
    assert 900 <= first["delay_ms"] <= 1100  # a second, give or take its jitter
    assert (last["level"], last["attempt"], last["claim_version"]) == ("error", 2, 2)
    assert "delay_ms" not in last
    for line in (first, last):
        assert (line["type"], line["queue"], line["namespace"]) == ("misbehave", "default", "media")
        assert (line["error_code"], line["worker_id"]) == ("ValueError", ended.worker_id or line["worker_id"])
        assert line["worker_id"].startswith("worker-7:")
        assert (line["exc_type"], line["exc_at"].partition(":")[0]) == ("ValueError", "app.py")
        assert line["exc_at"].split(" < ")[0].endswith(" in misbehave")
    assert "odd" not in worker.raw_log()  # the message may quote a payload


async def test_a_permanent_failure_a_timeout_and_a_cancel_are_told(client: Queue, floor: Floor) -> None:
    worker = await floor.start(lease="3s").working()
    permanent = await client.submit("misbehave", {"how": "permanent"})
    timed_out = await client.submit("gated", timeout="100ms", max_attempts=1)
    cancelled = await client.submit("gated", {"gate": "never"})
    await floor.noted("begun", cancelled)
    await client.cancel(cancelled.id)
    await in_state(client, cancelled, State.CANCELLED)
    (line,) = await told_of(worker, permanent.id)
    assert (line["level"], line["error_code"], line["state"]) == ("error", "no_such_file", "failed")
    (line,) = await told_of(worker, timed_out.id)
    assert (line["level"], line["error_code"], line["state"]) == ("error", "timeout", "dead_letter")
    (line,) = await told_of(worker, cancelled.id)
    assert (line["level"], line["state"]) == ("info", "cancelled")


async def test_a_job_that_succeeds_leaves_no_line(client: Queue, floor: Floor) -> None:
    worker = await floor.start().working()
    job = await client.submit("quick")
    await in_state(client, job, State.COMPLETED)
    failing = await client.submit("misbehave", {"how": "permanent"})
    await told_of(worker, failing.id)
    assert [line for line in worker.log() if line.get("job_id") == job.id] == []


async def test_every_line_of_a_handler_names_its_job_and_plain_logging_shows_the_traceback(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(sqlite_url)
    gate = AllowList(strict=True)
    shop = logging.getLogger("shop")

    @queue.job("on_the_loop")
    async def on_the_loop() -> None:
        shop.warning("on the loop")

    @queue.job("in_a_thread", max_attempts=1)
    def in_a_thread() -> None:
        shop.warning("in a thread")
        raise ValueError("card 4711")

    caplog.handler.addFilter(gate)
    with caplog.at_level(logging.DEBUG, "euterpe.worker"):
        async with working(queue):
            jobs = {"on the loop": await queue.submit("on_the_loop"), "in a thread": await queue.submit("in_a_thread")}
            for job in jobs.values():
                await job.wait("20s")
    lines = {record.getMessage(): vars(record)["euterpe_fields"] for record in caplog.records}
    for said, job in jobs.items():
        assert lines[said].items() >= {"job_id": job.id, "type": job.type, "attempt": 1}.items()
    assert lines["an attempt begins"].keys() >= {"job_id", "type", "attempt"}
    assert (lines["an attempt ended"]["job_id"], lines["an attempt ended"]["state"]) == (
        jobs["on the loop"].id,
        "completed",
    )
    assert f"in_a_thread {jobs['in a thread'].id}, attempt 1: card 4711" in caplog.text
    assert "in in_a_thread" in caplog.text
