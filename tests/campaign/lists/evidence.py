"""All that Redis holds of the jobs, read while it may be away."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import redis

PATIENCE_S: Final = 30.0
READ_AGAIN: Final = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError)


@dataclass
class Evidence:
    jobs: dict[str, dict[str, str]]
    """The record of each."""
    places: dict[str, list[str]]
    """In which lists the entry of each stands; `due` for what waits for its time."""
    attempts: dict[str, list[dict[str, Any]]]
    counts: dict[str, int]
    odd: list[str]
    """Text that is no job, wherever it stands."""

    @property
    def states(self) -> dict[str, str]:
        return {job_id: job["state"] for job_id, job in self.jobs.items()}

    @property
    def versions(self) -> dict[str, int]:
        return {job_id: int(job.get("claim_version", 0)) for job_id, job in self.jobs.items()}

    @property
    def charged(self) -> list[tuple[str, str]]:
        """Every attempt that was charged and did not complete its job, and its worker."""
        return [
            (f"{job_id}:{attempt['claim_version']}", str(attempt["worker_id"]))
            for job_id, attempts in self.attempts.items()
            for attempt in attempts
            if attempt["outcome"] not in ("released", "cancelled")
        ]

    def running_of(self, worker: str) -> dict[str, int]:
        return {
            job_id: int(job["claim_version"])
            for job_id, job in self.jobs.items()
            if job["state"] == "running" and job["worker_id"].startswith(worker)
        }


def gather(url: str) -> Evidence:
    """A look that waits for a Redis which is away by plan."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with redis.Redis.from_url(url, decode_responses=True, socket_timeout=PATIENCE_S) as client:
                return _read(client)
        except READ_AGAIN:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def still_held(url: str, job_ids: list[str], worker: str) -> bool:
    """Whether one of these still runs on a worker of this name."""
    with redis.Redis.from_url(url, decode_responses=True) as client, client.pipeline(transaction=False) as pipe:
        for job_id in job_ids:
            pipe.hmget(f"jobqueue:job:{job_id}", "state", "worker_id")
        return any(state == "running" and held_by.startswith(worker) for state, held_by in pipe.execute())


def held_count(url: str, worker: str) -> int:
    """How many jobs a worker of this name has claimed."""
    with redis.Redis.from_url(url) as client:
        names = client.scan_iter(f"jobqueue:worker:{worker}*:processing", count=10_000)
        return sum(client.llen(name) for name in names)


def heartbeat_left_s(url: str, worker: str) -> float:
    """For how long the heartbeat of a worker of this name will still be there."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return max(
            [client.pttl(name) / 1000 for name in client.scan_iter(f"worker:hb:{worker}*", count=10_000)], default=0.0
        )


def _read(client: redis.Redis) -> Evidence:
    names = sorted(client.scan_iter("jobqueue:*", count=10_000))
    jobs = [name for name in names if name.startswith("jobqueue:job:")]
    closed = [name for name in names if name.startswith("jobqueue:attempts:")]
    lists = [name for name in names if name not in {*jobs, *closed} and not name.endswith(":wake")]
    lists = [name for name in lists if client.type(name) == "list"]
    # One transaction: nothing moves between two of these looks.
    with client.pipeline(transaction=True) as pipe:
        for name in jobs:
            pipe.hgetall(name)
        for name in (*closed, *lists):
            pipe.lrange(name, 0, -1)
        pipe.zrange("jobqueue:due", 0, -1)
        pipe.hgetall("jobqueue:counts")
        told = pipe.execute()
    records = dict(zip(jobs, told, strict=False))
    rest = told[len(jobs) :]
    history = {
        name.removeprefix("jobqueue:attempts:"): [json.loads(line) for line in lines]
        for name, lines in zip(closed, rest, strict=False)
    }
    places: dict[str, list[str]] = {}
    odd: list[str] = []
    for name, entries in zip(lists, rest[len(closed) : -2], strict=True):
        for entry in entries:
            if (job_id := _id_in(entry)) is None:
                odd.append(f"{name}: {entry}")
            else:
                places.setdefault(job_id, []).append(name)
    for job_id in rest[-2]:
        places.setdefault(job_id, []).append("due")
    by_state = Counter[str]()
    for field, count in rest[-1].items():
        by_state[field.partition("\0")[0]] += int(count)
    found = {name.removeprefix("jobqueue:job:"): record for name, record in records.items() if record}
    return Evidence(found, places, history, dict(by_state), odd)


def _id_in(entry: str) -> str | None:
    try:
        return str(json.loads(entry)["id"])
    except ValueError:
        return None
