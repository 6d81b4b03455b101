"""Faults that outlast a lease or keep the database busy, each with a promise of its own."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import apsw
import psycopg

import euterpe
from euterpe.model.errors import EuterpeError
from tests.campaign.place import Place
from tests.campaign.plan import ATTIC
from tests.campaign.processes import LEASE_S, ROOT, SETTINGS, SWEEP_S
from tests.campaign.verdicts import Verdict
from tests.faults.recorder import rows, run

OUTAGE_S: Final = 2 * LEASE_S
SETTLED_S: Final = 3 * LEASE_S
"""After an outage: the time in which a recovery that does not wait would have taken jobs back."""
OLD_JOBS: Final = 4000
AT_ONCE: Final = 500
PROMOTED_WITHIN_S: Final = 3 * SWEEP_S + 2.0
LOOK_S: Final = 0.1
Claims = Sequence[tuple[str, int]]


class LongFaults:
    """What was looked at, and what broke a promise."""

    def __init__(self, place: Place, slack_s: float) -> None:
        self._place = place
        self._slack_s = slack_s
        self._held = 0
        self._taken: list[str] = []
        self._looks = 0
        self._late: list[str] = []

    def verdicts(self) -> list[Verdict]:
        return [
            Verdict("an outage longer than a lease takes no job from a living worker", self._held, self._taken),
            Verdict("due jobs do not wait for housekeeping", self._looks, self._late),
        ]

    async def outage_past_the_lease(self, held: Claims) -> None:
        """`held`: the claims of workers that are alive."""
        if self._place.engine == "sqlite":
            await asyncio.to_thread(self._place.hold_lock, OUTAGE_S)
        else:
            await asyncio.to_thread(self._place.server.stop, immediate=True)
            await asyncio.sleep(OUTAGE_S)
            await asyncio.to_thread(self._place.server.start)
        await asyncio.sleep(SETTLED_S)
        self._held += len(held)
        self._taken += await asyncio.to_thread(self._lost_of, set(held))

    def _lost_of(self, held: set[tuple[str, int]]) -> list[str]:
        lost = rows(
            self._place.url,
            "SELECT CAST(job_id AS text), claim_version FROM job_attempts"
            " WHERE CAST(error AS text) LIKE '%lost_lease%'",
        )
        return [f"claim {version} of {job_id} was taken back" for job_id, version in lost if (job_id, version) in held]

    async def prune_under_traffic(self) -> None:
        """Old jobs are removed while others become due."""
        await self._fill_attic()
        command = [sys.executable, "-m", "euterpe.cli", "--engine", self._place.url, "prune", "--yes", "--json"]
        pruning = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env={**self._place.environ, **SETTINGS}, stdout=asyncio.subprocess.DEVNULL
        )
        ended = asyncio.get_running_loop().create_task(pruning.wait())
        while not ended.done():
            await asyncio.sleep(LOOK_S)
            with suppress(psycopg.Error, apsw.Error):
                self._late += await asyncio.to_thread(self._overdue)
                self._looks += 1
        left = await asyncio.to_thread(rows, self._place.url, f"SELECT id FROM inbox_jobs WHERE queue = '{ATTIC}'")
        if pruning.returncode or left:
            self._late.append(f"prune ended with {pruning.returncode} and left {len(left)} jobs behind")

    async def _fill_attic(self) -> None:
        """Jobs that were cancelled long ago. The recorder forgets them: they are no part of the history."""
        url = self._place.url
        async with euterpe.Queue(url) as queue:
            for _ in range(OLD_JOBS // AT_ONCE):
                await _insist(lambda: queue.submit_many([("work", _NOTHING)] * AT_ONCE, queue=ATTIC, tags={"a": "b"}))
        jobs = f"SELECT id FROM inbox_jobs WHERE queue = '{ATTIC}'"
        await asyncio.to_thread(
            run, url, f"UPDATE inbox_jobs SET state = 'cancelled', completed_at = 1 WHERE queue = '{ATTIC}'"
        )
        await asyncio.to_thread(run, url, f"DELETE FROM recorded_moves WHERE job_id IN ({jobs})")

    def _overdue(self) -> list[str]:
        late_us = round((PROMOTED_WITHIN_S + self._slack_s) * 1e6)
        before_us = time.time_ns() // 1000 - late_us
        due = f"state IN ('delayed', 'retrying') AND run_at < {before_us}"
        found = rows(self._place.url, f"SELECT CAST(id AS text), state FROM inbox_jobs WHERE {due} LIMIT 5")
        return [f"{job_id} is {state} and was due {late_us / 1e6:.1f} s ago" for job_id, state in found]


_NOTHING: Final[dict[str, Any]] = {"ms": 0, "failures": 0, "for_good": False, "spawn": 0}


async def _insist(submit: Any) -> None:
    while True:
        try:
            await submit()
            return
        except EuterpeError:
            await asyncio.sleep(0.1)
