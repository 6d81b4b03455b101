"""Whether anything waits without a cause once the faults are over: a lost wake-up, a stuck sweep or a slot that was
never given back show so, long before nothing moves at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from tests.faults.recorder import rows

Clock = Callable[[], float]

_WAITING: Final = """
SELECT 'the lease of job ' || CAST(id AS text) || ' is over', claim_version FROM inbox_jobs
WHERE state = 'running' AND lease_expires_at < {now}
UNION ALL
SELECT 'job ' || CAST(id AS text) || ' is due', transitions FROM inbox_jobs
WHERE state IN ('delayed', 'retrying') AND run_at <= {now}
UNION ALL
SELECT 'the key ' || concurrency_key || ' has parked jobs and a free slot', CAST(sum(claim_version) AS bigint)
FROM inbox_jobs WHERE concurrency_key IS NOT NULL GROUP BY requester_id, concurrency_key
HAVING sum(CASE WHEN {parked} THEN 1 ELSE 0 END) > 0
   AND sum(CASE WHEN state = 'running' OR (state = 'scheduled' AND NOT ({parked})) THEN 1 ELSE 0 END)
       < min(concurrency_limit)
UNION ALL
SELECT 'jobs are ready and slots are free', CAST(sum(claim_version) AS bigint) FROM inbox_jobs
HAVING sum(CASE WHEN state = 'scheduled' AND NOT ({parked}) THEN 1 ELSE 0 END) > 0
   AND sum(CASE WHEN state = 'running' THEN 1 ELSE 0 END) < {slots}
UNION ALL
SELECT 'job ' || CAST(p.id AS text) || ' waits for dependencies that have ended', p.transitions FROM inbox_jobs p
WHERE p.state = 'pending' AND NOT EXISTS (
    SELECT 1 FROM job_dependencies d
    JOIN inbox_jobs j ON j.id = d.depends_on OR (p.dependency = 'fan_in' AND j.parent_id = d.depends_on)
    WHERE d.job_id = p.id AND j.completed_at IS NULL)
UNION ALL
SELECT DISTINCT 'events are due', (SELECT CAST(sum(claim_version) AS bigint) FROM job_outbox_events)
FROM job_outbox_events e
WHERE e.state IN ('scheduled', 'retrying') AND e.run_at <= {now}
  AND NOT EXISTS (SELECT 1 FROM job_outbox_events u WHERE u.state = 'running')
  AND NOT EXISTS (SELECT 1 FROM job_outbox_events b
                  WHERE b.job_id = e.job_id AND b.sequence < e.sequence AND b.state IN ('scheduled', 'retrying'))
UNION ALL
SELECT 'the lease of event ' || CAST(id AS text) || ' is over', claim_version FROM job_outbox_events
WHERE state = 'running' AND lease_expires_at < {now}
"""
_PARKED: Final = {
    "sqlite": "line <> '' AND state = 'scheduled' AND line NOT IN (SELECT name FROM euterpe_key_fronts)",
    "postgres": "seq IN (SELECT seq FROM euterpe_key_line)",
}
"""A job that waits for a place of its concurrency key."""


def waiting(url: str, slots: int) -> list[tuple[str, int]]:
    """What could go on and does not, each with a count that changes when it does. The database is on this machine: its
    clock is ours. There is one receiver: while deliveries to it hang, all other events wait for their slots."""
    parked = _PARKED["sqlite" if url.startswith("sqlite") else "postgres"]
    question = _WAITING.format(now=time.time_ns() // 1000, slots=slots, parked=parked)
    return [(said, int(count)) for said, count in rows(url, question)]


class Waits:
    """How long each of them has lasted without a change."""

    def __init__(self, allowed_s: float, clock: Clock = time.monotonic) -> None:
        self._allowed_s = allowed_s
        self._clock = clock
        self._since: dict[tuple[str, int], float] = {}
        self._told: dict[tuple[str, int], float] = {}
        self.looks = 0
        self.longest_s = 0.0

    def look(self, found: Iterable[tuple[str, int]]) -> None:
        self.looks += 1
        now = self._clock()
        self._since = {one: self._since.get(one, now) for one in found}
        for one, since in self._since.items():
            self.longest_s = max(self.longest_s, now - since)
            if now - since > self._allowed_s:
                self._told[one] = now - since

    @property
    def too_long(self) -> list[str]:
        return [f"{said} for {lasted_s:.1f} s" for (said, _), lasted_s in self._told.items()]
