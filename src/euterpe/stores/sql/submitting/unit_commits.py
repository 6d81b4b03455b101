"""Commits units, many at once, and finds out what became of a commit whose answer was lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from euterpe.model.errors import CommitUnknown, EuterpeError, StoreUnavailable
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.model.submitting.batch import SubmitResult, Unit
from euterpe.model.submitting.submission import SUBMISSION_TIMEOUT_US
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndedJob, EndReporter, log_ended
from euterpe.stores.sql.maintenance import replay as graph_replay
from euterpe.stores.sql.submitting import submit as jobs_submit
from euterpe.stores.sql.submitting.announcer import Announcer
from euterpe.stores.sql.submitting.batcher import SubmitBatcher

OUTAGE_WAIT_S: Final = SUBMISSION_TIMEOUT_US / 1_000_000
SHORTEST_OUTAGE_WAIT_S: Final = 0.1
"""For a write that is begun when its time is nearly over: less would cut off what a healthy database can do."""
ENDED_AT_SUBMIT: Final = frozenset({State.FAILED, State.DEAD_LETTER, State.CANCELLED})


class UnitCommits:
    def __init__(
        self, engine: Engine, end_reporter: EndReporter, announcer: Announcer, key_window_us: Callable[[], int]
    ) -> None:
        self._engine = engine
        self._end_reporter = end_reporter
        self._announcer = announcer
        self._key_window_us = key_window_us
        self._batcher = SubmitBatcher(self._commit, lambda: OUTAGE_WAIT_S)

    async def submit(self, unit: Unit) -> list[SubmitResult]:
        answer = await self._batcher.submit(unit)
        if isinstance(answer, EuterpeError):
            raise answer
        return answer

    async def _commit(self, units: Sequence[Unit], deadline: float) -> list[jobs_submit.Answer]:
        """Answered by the deadline. A tenth of the time is left to ask again, should an answer get lost."""
        patience_s = max(SHORTEST_OUTAGE_WAIT_S, 0.9 * (deadline - time.monotonic()))
        simple = jobs_submit.are_simple(units) and not graph_replay.are_replays(units)
        family = self._engine.family
        notice = self._announcer.notify_before_commit(units) if simple else None
        channel = None if notice is None else notice.channel
        try:
            if simple:
                answers = await self._engine.write_one(
                    lambda: jobs_submit.submit_simple(units, family, channel),
                    patience_s=patience_s,
                    is_small=len(units) == 1 and len(units[0].drafts) == 1,
                )
            else:
                answers = await self._end_reporter.write(
                    lambda: graph_replay.submit_and_mark(units, self._key_window_us()),
                    EndedBy.WORKER,
                    patience_s=patience_s,
                )
                self._report_ended_at_submit(answers)
        except CommitUnknown as unknown:
            answers, notice = await self._resolve_unknown(units, unknown, deadline), None
        self._announcer.announce_ready(answers, notice)
        return answers

    def _report_ended_at_submit(self, answers: Sequence[jobs_submit.Answer]) -> None:
        """What a job depends on may have ended badly before it came."""
        ended = [
            EndedJob(r.job_id, r.queue, r.type, State(r.state), Category.PERMANENT, "dependency_ended")
            for answer in answers
            if not isinstance(answer, EuterpeError)
            for r in answer
            if r.state in ENDED_AT_SUBMIT and not r.replayed
        ]
        self._end_reporter.count(ended)
        log_ended(ended, EndedBy.SWEEP)

    async def _resolve_unknown(
        self, units: Sequence[Unit], unknown: CommitUnknown, deadline: float
    ) -> list[jobs_submit.Answer]:
        """The answer to a commit was lost. Ids are ours and used once, so the rows themselves tell what happened."""
        left_s = max(SHORTEST_OUTAGE_WAIT_S, deadline - time.monotonic())
        try:
            return await self._engine.write(
                lambda: graph_replay.submit_again_and_mark(units, self._key_window_us()), patience_s=left_s
            )
        except StoreUnavailable as error:
            raise unknown from error  # That nothing was stored is true of this try alone.
