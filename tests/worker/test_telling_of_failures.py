"""What the log of a real worker tells of attempts that did not succeed: which, whose, when it is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.state import State
from euterpe.queue.queue import Queue
from tests.worker.floor import Floor, WorkerProcess, in_state, until

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
