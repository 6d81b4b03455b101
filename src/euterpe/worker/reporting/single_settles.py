"""Settles attempts alone when their batch was refused: something in it cannot be written, and the others can."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from euterpe.model.claims.exchange import Report, SettleResult
from euterpe.model.claims.outcome import Failed
from euterpe.model.errors import EuterpeError, StoreUnavailable
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Lease
from euterpe.ports import Claims
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.reporting.job_log import job_keys

log = logging.getLogger("euterpe.worker")

SETTLE_TRIES: Final = 5


class SingleSettles:
    def __init__(
        self,
        claims: Claims,
        after_settle: Callable[[list[AttemptRun], list[Report], Sequence[SettleResult]], None],
        give_up: Callable[[AttemptRun], None],
    ) -> None:
        self._claims = claims
        self._after_settle = after_settle
        self._give_up = give_up
        self._refusals: dict[Lease, int] = {}

    async def settle(self, ended: Sequence[AttemptRun]) -> list[AttemptRun]:
        """Those that are not done with, for another try."""
        return [attempt for attempt in ended if not await self._settle_single(attempt)]

    async def _settle_single(self, attempt: AttemptRun) -> bool:
        """Whether it is done with. Only an outcome that is itself refused is replaced, by a failure that says so;
        everything else passes, and what the handler did is kept for another try."""
        finished = attempt.finished()
        try:
            await self._write(attempt, finished)
        except StoreUnavailable:
            return False
        except Exception as error:  # noqa: BLE001  # whatever it is, it may not cost the others their outcomes
            if isinstance(error, EuterpeError) or isinstance(finished.outcome, Failed):
                return await self._settle_as_refused(attempt, error)
            return self._give_up_after_tries(attempt, error)
        return True

    async def _settle_as_refused(self, attempt: AttemptRun, refused: Exception) -> bool:
        why = str(refused) if isinstance(refused, EuterpeError) else type(refused).__name__
        reason = f"the outcome cannot be written: {why}"
        failed = Failed(Failure(Category.PERMANENT, reason, "unwritable_outcome"))
        try:
            await self._write(attempt, Report(attempt.claim, failed, attempt.took_s))
        except StoreUnavailable:
            return False
        except Exception as error:  # noqa: BLE001  # then it is not the outcome that is wrong
            return self._give_up_after_tries(attempt, error)
        code = type(refused).__name__
        log.error(
            "an outcome cannot be written", extra={**job_keys(attempt.claim.job, attempt.span_keys), "error_code": code}
        )
        return True

    async def _write(self, attempt: AttemptRun, finished: Report) -> None:
        verdicts = await self._claims.settle([finished])
        self._refusals.pop(attempt.claim.lease, None)
        self._after_settle([attempt], [finished], verdicts)

    def _give_up_after_tries(self, attempt: AttemptRun, error: Exception) -> bool:
        """A few tries; then its lease is let go, and a sweep has the job run again."""
        lease = attempt.claim.lease
        tries = self._refusals.pop(lease, 0) + 1
        if tries < SETTLE_TRIES:
            self._refusals[lease] = tries
            return False
        log.error(
            "an attempt cannot be settled; its lease will expire",
            extra=job_keys(attempt.claim.job, attempt.span_keys),
            exc_info=error,
        )
        self._give_up(attempt)
        return True
