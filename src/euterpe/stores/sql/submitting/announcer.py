"""Tells those who wait of what a commit brought: workers of jobs that are ready, dispatchers of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from euterpe.model.errors import EuterpeError
from euterpe.model.state import State
from euterpe.model.submitting.batch import Unit
from euterpe.ports import OUTBOX_CHANNEL, CommitNotice, MessageWakeups, NotifiesBeforeCommit, Telemetry, Wakeups
from euterpe.stores.sql.submitting.submit import Answer


class Announcer:
    def __init__(self, telemetry: Callable[[], Telemetry | None]) -> None:
        self._telemetry = telemetry
        self._wakeups: Wakeups | None = None
        self._notifies_before_commit: NotifiesBeforeCommit | None = None
        self._names_jobs: MessageWakeups | None = None

    @property
    def wakeups(self) -> Wakeups | None:
        return self._wakeups

    @wakeups.setter
    def wakeups(self, wakeups: Wakeups | None) -> None:
        self._wakeups = wakeups
        # Asked here, once: Python 3.11 looks up a protocol's members at every isinstance, 19 us of each submit.
        self._names_jobs = wakeups if isinstance(wakeups, MessageWakeups) else None
        self._notifies_before_commit = wakeups if isinstance(wakeups, NotifiesBeforeCommit) else None

    def notify_before_commit(self, units: Sequence[Unit]) -> CommitNotice | None:
        if self._notifies_before_commit is None:
            return None
        if len(units) > 1 or len(units[0].drafts) > 1:
            return None
        lone = units[0].drafts[0].submission
        if lone.delay_us or lone.run_at is not None:
            return None
        return self._notifies_before_commit.notify_before_commit(lone.queue)

    def announce_ready(self, answers: Sequence[Answer], notice: CommitNotice | None) -> None:
        """Tell workers of what is ready, once for all that was committed together."""
        fresh = [r for answer in answers if not isinstance(answer, EuterpeError) for r in answer if not r.replayed]
        if self._wakeups is not None and (ready := [r for r in fresh if r.state == State.SCHEDULED]):
            if notice is not None:
                notice.announce({submitted.queue for submitted in ready})
            elif self._names_jobs is not None:
                self._names_jobs.announce_jobs(ready)
            else:
                self._wakeups.announce({submitted.queue for submitted in ready})
        telemetry = self._telemetry()
        if telemetry is not None:
            for queue, count in Counter(submitted.queue for submitted in fresh).items():
                telemetry.produced(queue, count)

    def hint_of_events(self) -> None:
        """There may be events for whoever delivers them: of this job, or of those that depended on it."""
        if self._wakeups is not None:
            self._wakeups.announce([OUTBOX_CHANNEL])
