"""Many short jobs at once, which workers claim ahead: what a killed one had not begun must not be charged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import euterpe
from euterpe.model.errors import EuterpeError
from tests.campaign.hostile_jobs import BATCHES
from tests.campaign.parts import opened
from tests.campaign.processes import Role
from tests.faults.crew import Actor, Line, until
from tests.faults.recorder import rows

BURST: Final = 400
BURSTS: Final = 4
BURST_S: Final = 2.0
"""By then a burst is over."""
STOP: Final = "stop"


async def burster(line: Line, url: str, transport: str | None) -> None:
    """A batch at each order, acknowledged or not. It reports each, so that the kill comes in the middle of its jobs."""
    async with opened(euterpe.Queue(url, transport=transport)) as queue:
        while (order := await line.order()) != STOP:
            try:
                jobs = await queue.submit_many(BATCHES.get(order, [("brief", {})] * BURST), max_attempts=3)
            except EuterpeError:
                jobs = []  # the database is away, by plan
            for job in jobs:
                line.note("submitted", job_id=job.id, number="of a burst", at=time.time())
            line.report([job.id for job in jobs] if order in BATCHES else len(jobs))
    line.report("done")


async def burst_until(claims_ahead: Callable[[], Awaitable[bool]], actor: Actor) -> None:
    """A burst is under way when this returns, with a worker that has claimed ahead if it came to that."""
    for _ in range(BURSTS):
        actor.order("burst")
        try:
            await until(claims_ahead, BURST_S)
        except TimeoutError:  # the others were quicker
            await actor.report()
        else:
            return
    actor.order("burst")


class Ends(NamedTuple):
    """The lives of workers, by how they ended."""

    killed: frozenset[str]
    frozen: frozenset[str]

    @staticmethod
    def of(workers: Iterable[Role]) -> Ends:
        lives = list(workers)
        killed, frozen = ([role.killed for role in lives], [role.frozen for role in lives])
        return Ends(frozenset().union(*killed), frozenset().union(*frozen))


def charged_in(url: str) -> list[tuple[str, str]]:
    """Every attempt that was charged, and its worker. Not one that failed with an OSError: a full disk refused the note
    of its first line, so it had begun."""
    return [
        (attempt, str(worker_id))
        for attempt, worker_id in rows(
            url,
            "SELECT CAST(job_id AS text) || ':' || claim_version, worker_id FROM job_attempts"
            " WHERE outcome NOT IN ('released', 'cancelled') AND COALESCE(error, '') NOT LIKE '%\"OSError\"%'",
        )
    ]


def unbegun(charged: Iterable[tuple[str, str]], begun: Path, slots: int, ends: Ends) -> Iterator[str]:
    """The workers that left attempts charged that had not begun. A killed one may leave as many as it has slots: they
    had begun, and had not come to their first line. A frozen one may leave all that it had claimed (ADR 011)."""
    began = set(begun.read_text().split()) if begun.exists() else set()
    left = Counter(worker_id.partition(":")[0] for attempt, worker_id in charged if attempt not in began)
    for worker, count in left.items():
        if worker not in ends.frozen and count > (slots if worker in ends.killed else 0):
            yield f"{count} attempts of {worker} were charged and had not begun"
