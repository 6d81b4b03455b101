"""When a worker lets suspects start: jobs whose last attempt ended with a lost worker (ADR 018).

One of the jobs that ran beside each other may have killed their worker, and nobody knows which. So they start a few at
a time, and at last alone, before they run out of attempts. A loss then hits few others, and only a job that dies alone
runs out of attempts by losses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Final

from euterpe.model.job import JobRow
from euterpe.worker.attempt import AttemptRun

TRIAL_S: Final = 10.0
"""A suspect that has run for so long counts as any other job: what kills its worker mostly does so at once."""
FIRST_WIDTH: Final = 4
LARGEST_WIDTH: Final = 16
"""So many suspects are on trial at once: few at first, one more for each that kills nothing."""
ALONE_AFTER: Final = 2
"""Lost attempts after which a suspect starts alone."""
HELD_LIMIT: Final = 16
"""So many suspects wait in the worker; the others wait in the database."""
HELD_PATIENCE_S: Final = 30.0
FAIR_TURN_S: Final = 5.0
"""When others have waited for so long in all, they get a turn as long as they waited."""
PATIENT_CLAIMS: Final = 6
"""A suspect that was given back so often no longer waits for neighbours that cannot afford a loss."""


class Turn(Enum):
    NOW = "now"
    WAIT = "wait"
    """Here, for a moment."""
    LATER = "later"
    """It goes back uncharged."""


class SuspectTurns:
    """The suspects among a worker's attempts. `running` are all that run; the worker tells what begins, ends and is
    written."""

    def __init__(self, running: Collection[AttemptRun], clock: Callable[[], float] = time.monotonic) -> None:
        self._running = running
        self._clock = clock
        self.suspects: dict[AttemptRun, bool] = {}
        """Those that run, and whether they have passed their trial."""
        self.fragile: set[AttemptRun] = set()
        """Begun, not yet written, and dead letters if this worker is lost."""
        self._width = FIRST_WIDTH
        self._alone: AttemptRun | None = None
        """It runs alone, or did until its trial was over."""
        self._next_alone: str | None = None
        """The job that starts alone as soon as its neighbours have ended; nothing else starts meanwhile."""
        self._holds_since = 0.0
        self._held_others_s = 0.0
        self._others_until = 0.0

    @property
    def is_quiet(self) -> bool:
        """No suspect runs or is about to."""
        return not self.suspects and self._next_alone is None

    @property
    def holds_others(self) -> bool:
        """Whether nothing may start, because a suspect runs alone or is about to."""
        if self._alone is None:
            return self._next_alone is not None
        return self._clock() - self._alone.started < TRIAL_S

    def turn_of(self, job: JobRow, unwritten: int, held: int) -> Turn:
        """Whether a claimed job may start. `unwritten` attempts are over and not yet written, `held` jobs wait here."""
        lost = job.lost_attempts
        if not lost:
            is_fragile = not job.can_lose_its_worker
            if self.holds_others:
                return Turn.LATER if is_fragile else Turn.WAIT
            return Turn.LATER if is_fragile and self._on_trial() else Turn.NOW
        is_patient = job.times_left >= PATIENT_CLAIMS
        if lost >= ALONE_AFTER or not job.can_lose_its_worker:
            turn = self._turn_alone(job, unwritten, is_patient=is_patient)
            self._next_alone = job.id if turn is Turn.WAIT else None if self._next_alone == job.id else self._next_alone
            return turn
        if self.fragile and not is_patient:
            return Turn.LATER
        if not self.holds_others and self._on_trial() < self._width:
            return Turn.NOW
        return Turn.WAIT if held < HELD_LIMIT else Turn.LATER

    def _turn_alone(self, job: JobRow, unwritten: int, *, is_patient: bool) -> Turn:
        """Alone: beside nothing that began lately, beside no other suspect, and with nothing unwritten that would be
        lost with this worker. What has run for longer than a trial may stay."""
        now = self._clock()
        is_next = self._next_alone == job.id
        if (self._next_alone is not None and not is_next) or self._on_trial():
            return Turn.LATER
        if (self.suspects or self.fragile) and not is_patient:
            return Turn.LATER
        if not unwritten and all(now - attempt.started >= TRIAL_S for attempt in self._running):
            if not is_next:
                if now < self._others_until:
                    return Turn.LATER
                self._holds_since = now
            return Turn.NOW
        if is_next:
            return Turn.WAIT if now - self._holds_since < TRIAL_S + FAIR_TURN_S else self._hold_over(now, Turn.LATER)
        if now < self._others_until:
            return Turn.LATER
        self._holds_since = now
        return Turn.WAIT

    def _on_trial(self) -> int:
        return sum(not passed for passed in self.suspects.values())

    def began(self, attempt: AttemptRun) -> None:
        job = attempt.claim.job
        if not job.can_lose_its_worker:
            self.fragile.add(attempt)
        if lost := job.lost_attempts:
            self.suspects[attempt] = False
            if lost >= ALONE_AFTER or not job.can_lose_its_worker:
                self._alone, self._next_alone = attempt, None

    def ended(self, attempt: AttemptRun) -> None:
        """It is over, or its lease is lost."""
        if self.suspects.pop(attempt, True) is False:
            self._pass(attempt)
        if attempt is self._alone:
            self._alone = None
        if attempt.outcome is None:
            self.fragile.discard(attempt)

    def written(self, attempts: Sequence[AttemptRun]) -> None:
        self.fragile.difference_update(attempts)

    def look(self) -> None:
        """Now and then: which trials are over."""
        now = self._clock()
        for attempt, passed in self.suspects.items():
            if not passed and now - attempt.started >= TRIAL_S:
                self.suspects[attempt] = True
                self._pass(attempt)

    def forget(self, job_id: str) -> None:
        """It waits here no longer: cancelled, lost, or given back."""
        if self._next_alone == job_id:
            self._next_alone = None

    def _pass(self, attempt: AttemptRun) -> None:
        self._width = min(self._width + 1, LARGEST_WIDTH)
        if attempt is self._alone:
            self._hold_over(min(self._clock(), attempt.started + TRIAL_S), Turn.NOW)

    def _hold_over(self, now: float, turn: Turn) -> Turn:
        """Nothing is held up any more. Others get their turn if they have waited for long."""
        self._held_others_s += now - self._holds_since
        if self._held_others_s >= FAIR_TURN_S:
            self._others_until, self._held_others_s = now + self._held_others_s, 0.0
        return turn
