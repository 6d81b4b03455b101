"""Jobs that take their worker down, and jobs that block its event loop, among neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from tests.campaign.verdicts import Verdict
from tests.faults.crew import Actor, until
from tests.faults.recorder import rows

NEIGHBOURS: Final = 20
BLOCK_S: Final = 9.0
TOLD_WITHIN_S: Final = 20.0
"""A blocked loop is told of after 5 s; on a busy machine a connection takes a while."""
SUBMITTED_S: Final = 30.0
ENDED_S: Final = 120.0
BATCHES: Final[dict[str, list[tuple[str, Any]]]] = {
    "killer": [("killer", {}), *[("neighbour", {})] * NEIGHBOURS],
    "hog": [("hog", {"seconds": BLOCK_S})],
}
ENDS_WORKERS: Final = frozenset(
    ("kill_worker", "kill_in_a_burst", "stop_in_a_burst", "freeze_worker", "kill_keeper", "kill_api", "skew_clock")
)
"""Faults after which a neighbour or a blocked job may have lost its worker for another reason."""
TOLD: Final = "SELECT 1 FROM euterpe_workers WHERE facts LIKE '%hog (app.py:%'"
ENDED: Final = "('completed', 'failed', 'dead_letter', 'cancelled')"


class HostileJobs:
    """What was submitted of them, and what was seen."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._batches = 0
        self._blocks = 0
        self._untold: list[str] = []

    async def kill(self, submitter: Actor, look_after_roles: Callable[[], None]) -> None:
        """Until the job that kills has ended; whoever it takes down is started again."""
        submitter.order("killer")
        ids = await submitter.report(SUBMITTED_S)
        if not ids:
            return
        self._batches += 1

        async def ended() -> bool:
            look_after_roles()
            return self._count(f"id = '{ids[0]}' AND state IN {ENDED}") == 1

        with suppress(TimeoutError):  # the verdicts tell
            await until(ended, ENDED_S)

    async def block(self, submitter: Actor, look_after_roles: Callable[[], None]) -> None:
        """Until its job has ended. While it blocks, the registry has to tell so."""
        submitter.order("hog")
        ids = await submitter.report(SUBMITTED_S)
        if not ids:
            return
        self._blocks += 1
        began = time.monotonic()
        told_after: float | None = None

        async def ended() -> bool:
            nonlocal told_after
            look_after_roles()
            if told_after is None and rows(
                self._url, "SELECT 1 FROM euterpe_workers WHERE facts LIKE '%\"hog (app.py:%'"
            ):
                told_after = time.monotonic() - began
            return self._count(f"id = '{ids[0]}' AND state IN {ENDED}") == 1

        with suppress(TimeoutError):
            await until(ended, ENDED_S)
        if told_after is None or told_after > TOLD_WITHIN_S:
            self._untold.append(f"the block by {ids[0]} was told after {told_after} s")

    def verdicts(self, *, others_ended: bool) -> list[Verdict]:
        """`others_ended`: workers also ended, or lost leases, for reasons that are no job's fault."""
        return [
            Verdict(
                "a job that kills its worker is a dead letter after its attempts, and alone",
                self._batches * (NEIGHBOURS + 1),
                list(self._wrongly_judged(others_ended=others_ended)),
            ),
            Verdict(
                "a blocked event loop costs nothing and is told of",
                self._blocks,
                [] if others_ended else [*self._untold, *self._paid()],
            ),
        ]

    def _wrongly_judged(self, *, others_ended: bool) -> Iterator[str]:
        killers = "SELECT CAST(id AS text), state, attempt_count FROM inbox_jobs WHERE type = 'killer'"
        for job_id, state, attempts in rows(self._url, killers):
            if (state, attempts) != ("dead_letter", 3) and state != "cancelled":  # an operator cancels some
                yield f"the killer {job_id} is {state} after {attempts} attempts"
        if not others_ended:
            innocent = "SELECT CAST(id AS text), type FROM inbox_jobs WHERE type <> 'killer' AND state = 'dead_letter'"
            for job_id, job_type in rows(self._url, f"{innocent} AND CAST(error AS text) LIKE '%lost_lease%'"):
                yield f"{job_type} {job_id} is a dead letter for the loss of its workers"

    def _paid(self) -> Iterator[str]:
        hogs = "SELECT CAST(id AS text), state, claim_version FROM inbox_jobs WHERE type = 'hog'"
        for job_id, state, version in rows(self._url, hogs):
            if state != "completed":
                yield f"the blocking job {job_id} is {state} after {version} claims"

    def _count(self, condition: str) -> int:
        ((count,),) = rows(self._url, f"SELECT count(*) FROM inbox_jobs WHERE {condition}")
        return int(count)
