"""What real processes tell on Redis lists: each number on their pages is right, and the reaper counts what it moves."""

from __future__ import annotations

import signal

import redis

from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.submitting.submission import Submission
from tests.cli.commands import Shell, lines_with
from tests.cli.conftest import Start
from tests.cli.states import with_store
from tests.cli.test_telemetry import (
    BY_QUEUE,
    by_type,
    failed,
    lines_of,
    page_of,
    told_of,
    until_begun,
    until_counted,
    until_sampled,
)
from tests.observe.promtool import complaints_about
from tests.observe.scraping import samples_of
from tests.servers.process import free_port

WORKER = ("--role=worker", "--app", "telling:queue")


def submit(url: str, job_type: str, payload: bytes = b"{}", **said: object) -> str:
    submission = Submission(type=job_type, payload=payload, **said)  # type: ignore[arg-type]  # by name
    return with_store(url, lambda backend: backend.store.submit(submission)).job_id


def test_a_worker_whose_lists_are_configured_is_not_said_to_be_elsewhere(
    telling_shell: Shell, start: Start, redis_url: str
) -> None:
    """The configuration adds to the URL of the app's queue, which names the same place."""
    worker = start(telling_shell, *WORKER, ENGINE_URL=redis_url, WORKER_MAX_RETRIES="1", OBSERVABILITY_METRICS_PORT="0")
    worker.until_said("working on jobs")
    assert not lines_with("another database", (*worker.out, *worker.err))


def test_commands_take_the_ids_of_other_programs(telling_shell: Shell, start: Start, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as raw:
        raw.lpush("jobqueue:low_priority", '{"id": "their-7", "type": "fail"}')
    worker = start(telling_shell, *WORKER, ENGINE_URL=redis_url, OBSERVABILITY_METRICS_PORT="0")
    worker.until_said("their-7")
    shown = telling_shell.json("jobs", "show", "their-7", ENGINE_URL=redis_url)
    assert (shown["job_id"], shown["type"]) == ("their-7", "fail")


def test_a_worker_on_redis_lists_counts_every_end(telling_shell: Shell, start: Start, redis_url: str) -> None:
    port = str(free_port())
    worker = start(telling_shell, *WORKER, ENGINE_URL=redis_url, OBSERVABILITY_METRICS_PORT=port)
    base = f"http://127.0.0.1:{port}"
    worker.until_said("working on jobs")
    submit(redis_url, "succeed")
    lost = submit(redis_url, "fail")
    soon = RetryPolicy(Backoff(initial_us=10_000))
    dead = submit(redis_url, "stumble", max_attempts=2, retry=soon)
    too_old = submit(redis_url, "unknown.to.this.worker", lifetime_us=1_000_000)
    until_counted(
        {
            f"jobs_consumed_total{BY_QUEUE}": 4,
            f"jobs_completed_total{BY_QUEUE}": 1,
            failed("permanent"): 1,
            failed("temporary"): 2,
            failed("timeout"): 1,
            f"jobs_retried_total{BY_QUEUE}": 1,
            f"jobs_dead_letter_total{BY_QUEUE}": 2,
        },
        base,
    )
    seen = samples_of(page_of(base))
    assert seen[f"job_processing_duration_seconds_count{BY_QUEUE}"] == 4
    assert seen[f"claim_latency_seconds_count{BY_QUEUE}"] == 4
    assert by_type(seen) == {("succeed", "completed"): 1, ("fail", "permanent"): 1, ("stumble", "temporary"): 2}
    assert seen['euterpe_attempt_duration_seconds_count{type="stumble"}'] == 2
    idle = {f"{name}{BY_QUEUE}": 0.0 for name in ("queue_length", "queue_oldest_age_seconds", "circuit_breaker_state")}
    until_sampled(idle, base)
    assert told_of(worker, lost) == {("error", "failed", "permanent")}
    assert told_of(worker, dead) == {("warning", "retrying", "temporary"), ("error", "dead_letter", "temporary")}
    assert told_of(worker, too_old) == {("error", "dead_letter", "lifetime_exceeded")}
    assert complaints_about(page_of(base)) == ""


def test_the_reaper_counts_what_it_takes_back_from_a_killed_worker(
    telling_shell: Shell, start: Start, redis_url: str
) -> None:
    """All had begun: what had not is given back by the lease keeper, without the reaper."""
    lists = {"ENGINE_URL": redis_url, "WORKER_HEARTBEAT_TTL": "5s"}
    first = start(telling_shell, *WORKER, **lists, OBSERVABILITY_METRICS_PORT="0")
    jobs = [submit(redis_url, "linger", b'{"name":"begun-%d"}' % n, max_attempts=1) for n in range(3)]
    for number in range(3):
        until_begun(telling_shell, f"begun-{number}")
    lines_of(first)
    first.tell(signal.SIGKILL)
    port = str(free_port())
    second = start(telling_shell, *WORKER, **lists, OBSERVABILITY_METRICS_PORT=port)
    second.until_said("a job was ended without its worker")
    base = f"http://127.0.0.1:{port}"
    until_counted(
        {
            "reaper_jobs_moved_total": 3,
            failed("system"): 3,
            f"jobs_dead_letter_total{BY_QUEUE}": 3,
            "jobs_reclaimed_total": 3,
        },
        base,
    )
    for job_id in jobs:
        assert told_of(second, job_id) == {("error", "dead_letter", "lost_lease")}
