"""What a run of the demo proved: each a look at the jobs and attempts that the database holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from euterpe.cli.demo.app import FAILURES, FIRST_RETRY_S
from euterpe.cli.demo.proof import Proof
from euterpe.cli.demo.steps import DELAY_S, Steps
from euterpe.model.state import State


def nothing_was_lost(steps: Steps) -> Proof:
    completed = sum(job.state is State.COMPLETED for job in steps.jobs.values())
    return Proof(completed == len(steps.names), f"nothing was lost: {completed} of {len(steps.names)} jobs completed")


def each_completed_once(steps: Steps) -> Proof:
    attempts = [attempt for of_job in steps.attempts.values() for attempt in of_job]
    ends = [sum(attempt.outcome == "completed" for attempt in of_job) for of_job in steps.attempts.values()]
    return Proof(
        all(end == 1 for end in ends),
        f"each job completed exactly once: {sum(ends)} completions in {len(attempts)} attempts",
    )


def orphans_were_recovered(steps: Steps) -> Proof:
    """Every orphan has an attempt of the killed worker that was lost, or that its lease keeper gave back because it had
    not begun, and one of the other worker that completed."""
    recovered, slowest_us = 0, 0
    for job_id in steps.orphans:
        ends = ("system", "released")
        lost = [a for a in steps.attempts[job_id] if _by(a.worker_id) == "worker-a" and a.outcome in ends]
        done = [a for a in steps.attempts[job_id] if _by(a.worker_id) == "worker-b" and a.outcome == "completed"]
        recovered += bool(lost and done)
        slowest_us = max([slowest_us, *(a.started_at - steps.killed_at_us for a in done)])
    return Proof(
        recovered == len(steps.orphans) > 0,
        f"the killed worker's jobs were recovered: {recovered} of {len(steps.orphans)}, "
        f"the last {slowest_us / 1e6:.1f} s later",
    )


def retries_waited(steps: Steps) -> Proof:
    """Between a failure and the next attempt lies the backoff that was asked for, less its jitter of a tenth."""
    waits: dict[int, list[float]] = {}
    for job_id in steps.flaky:
        for failed, following in pairwise(steps.attempts[job_id]):
            if failed.outcome == "temporary":
                waits.setdefault(failed.attempt, []).append((following.started_at - (failed.ended_at or 0)) / 1e6)
    asked = {attempt: FIRST_RETRY_S * 2 ** (attempt - 1) for attempt in waits}
    summary = ", ".join(f"{min(waited):.2f} s (asked: {asked[n]:g} s)" for n, waited in sorted(waits.items()))
    return Proof(
        len(waits) == FAILURES and all(min(waited) >= 0.9 * asked[attempt] for attempt, waited in waits.items()),
        f"{sum(map(len, waits.values()))} failed attempts were retried with backoff, the shortest after {summary}",
    )


def the_delay_was_kept(steps: Steps) -> Proof:
    job = steps.jobs[steps.later]
    waited_s = ((job.started_at or 0) - job.created_at) / 1e6
    return Proof(waited_s >= DELAY_S, f"the delayed job waited: {waited_s:.2f} s (asked: {DELAY_S:g} s)")


def the_fan_in_waited(steps: Steps) -> Proof:
    parts = [steps.jobs[job_id] for job_id in (*steps.parts, *steps.flaky)]
    last_end = max(job.completed_at or 0 for job in parts)
    gap_s = ((steps.jobs[steps.summary].started_at or 0) - last_end) / 1e6
    return Proof(
        gap_s >= 0 and all(job.state is State.COMPLETED for job in parts),
        f"the fan-in waited for all {len(parts)} parts, and began {gap_s * 1000:.0f} ms after the last ended",
    )


def the_late_write_bounced(steps: Steps) -> Proof:
    job = steps.jobs[steps.nap]
    refused = steps.late_write is not None and not steps.late_write.accepted
    was_refused = steps.late_beat is not None and not steps.late_beat.alive
    kept = job.result is not None and b"awake" in job.result
    return Proof(
        refused and was_refused and kept,
        "the sleeper's late write bounced; the result is its successor's",
    )


def http_is_just_another_door(steps: Steps) -> Proof:
    job = steps.jobs[steps.over_http]
    return Proof(
        job.state is State.COMPLETED and job.result == b'"hello world"',
        "the job that came over HTTP was run like any other",
    )


def webhooks_were_signed(steps: Steps) -> Proof:
    """The receiver's own check decided what counts as genuine; the order is that of the job's changes."""
    events = steps.receiver.events
    types = [str(event.payload["type"]) for event in events]
    sequence = [int(event.payload["sequence"]) for event in events]
    ours = all(event.payload["job"]["job_id"] == steps.over_http for event in events)
    return Proof(
        bool(events)
        and ours
        and sequence == sorted(sequence)
        and types[-1] == "job.completed"
        and not steps.receiver.refused,
        f"its webhooks came signed and in order: {', '.join(types)}",
    )


def _by(worker_id: str | None) -> str:
    return (worker_id or "").partition(":")[0]


PROOFS: tuple[Callable[[Steps], Proof], ...] = (
    nothing_was_lost,
    each_completed_once,
    orphans_were_recovered,
    retries_waited,
    the_delay_was_kept,
    the_fan_in_waited,
    the_late_write_bounced,
    http_is_just_another_door,
    webhooks_were_signed,
)
