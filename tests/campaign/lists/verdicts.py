"""The promises of Redis lists, and everything in the evidence that breaks them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from euterpe.model.state import TERMINAL
from tests.campaign.lists.evidence import Evidence
from tests.campaign.verdicts import Verdict

BEHIND_S: Final = 2.5
"""With `appendfsync everysec` Redis may lose what it acknowledged in the last two seconds before its death."""
ENDED_IN: Final = {state: f"jobqueue:{state}" for state in map(str, TERMINAL)}


def list_verdicts(seen: Evidence, acknowledged: Sequence[dict[str, Any]], excused: Sequence[float]) -> list[Verdict]:
    """`excused`: when Redis was killed without having to have written everything down."""
    closed = sum(map(len, seen.attempts.values()))
    return [
        Verdict("nothing acknowledged is lost", len(acknowledged), list(lost(seen, acknowledged, excused))),
        Verdict("every job has ended", len(seen.jobs), list(unended(seen))),
        Verdict("each job stands in one list, that of its state", len(seen.places), list(misplaced(seen))),
        Verdict("no write with an old version", len(seen.jobs) + closed, list(written_by_others(seen))),
        Verdict("each attempt is closed once", closed, list(closed_twice(seen))),
        Verdict("attempts within their budget", len(seen.jobs), list(over_budget(seen))),
        Verdict("counts agree with the records", len(seen.counts), miscounted(seen)),
        Verdict("what is no job is a dead letter", len(seen.odd), [o for o in seen.odd if not o.startswith(DEAD)]),
    ]


DEAD: Final = "jobqueue:dead_letter: "


def lost(seen: Evidence, acknowledged: Sequence[dict[str, Any]], excused: Sequence[float]) -> Iterator[str]:
    for note in acknowledged:
        if note["job_id"] not in seen.jobs and not any(0 <= at - note["at"] <= BEHIND_S for at in excused):
            yield f"number {note['number']}, {note['job_id']}, acknowledged at {note['at']:.1f}"


def unended(seen: Evidence) -> Iterator[str]:
    for job_id, state in seen.states.items():
        if state not in TERMINAL:
            yield f"{job_id} is {state}"


def misplaced(seen: Evidence) -> Iterator[str]:
    for job_id, state in seen.states.items():
        if seen.places.get(job_id, []) != [ENDED_IN.get(state, "?")]:
            yield f"{job_id} is {state} and stands in {seen.places.get(job_id)}"
    for job_id in seen.places.keys() - seen.jobs.keys():
        yield f"{job_id} stands in {seen.places[job_id]} and has no record"


def written_by_others(seen: Evidence) -> Iterator[str]:
    """A result or an error that an earlier claim wrote over the one that was running."""
    for job_id, job in seen.jobs.items():
        own = f'"{job_id}:{job.get("claim_version")}"'
        if job["state"] == "completed" and job["kind"].endswith("\0work") and job.get("result") != own:
            yield f"claim {job.get('claim_version')} of {job_id} has the result {job.get('result')}"
        for attempt in seen.attempts.get(job_id, []):
            said = attempt.get("error") or ""
            if "planned in" in said and f"planned in {job_id}:{attempt['claim_version']}" not in said:
                yield f"claim {attempt['claim_version']} of {job_id} has the error of another: {said[:200]}"


def closed_twice(seen: Evidence) -> Iterator[str]:
    for job_id, attempts in seen.attempts.items():
        versions = Counter(attempt["claim_version"] for attempt in attempts)
        if seen.jobs.get(job_id, {}).get("state") == "completed":
            versions[seen.jobs[job_id]["claim_version"]] += 1
        for version, times in versions.items():
            if times > 1:
                yield f"claim {version} of {job_id} ended {times} times"


def over_budget(seen: Evidence) -> Iterator[str]:
    for job_id, job in seen.jobs.items():
        budget = json.loads(job["entry"])["max_attempts"]
        if int(job.get("attempt_count", 0)) > budget:
            yield f"{job_id} had {job['attempt_count']} attempts of {budget}"


def miscounted(seen: Evidence) -> list[str]:
    there = dict(Counter(seen.states.values()))
    return [] if seen.counts == there else [f"counted {seen.counts}, and there are {there}"]
