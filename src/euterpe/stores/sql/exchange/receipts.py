"""Claims of plain jobs that stand on a receipt, a row for a whole batch, and on none of the jobs' rows (ADR 017).

The store that claimed knows its receipts: it deletes those whose jobs are all settled, and puts what lasts onto its
rows, so that everybody who looks for running jobs finds it there.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from time import monotonic
from typing import Final

from euterpe.model.errors import EuterpeError
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one

SWEPT_AT_ONCE: Final = 1000
ON_ROWS_AFTER_S: Final = 0.3
"""A claim that lasts longer goes onto the row of its job, where whoever looks for running jobs finds it."""
CLOSE_S: Final = 2.0
"""A database that does not answer holds up the end of a process no longer."""


class Receipts:
    """The receipts of this store's claims."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._left: dict[int, int] = {}
        self._since: dict[int, float] = {}
        self._settled: list[int] = []

    @property
    def are_there(self) -> bool:
        return bool(self._left or self._settled)

    def cover_any(self, job_ids: Iterable[str]) -> bool:
        return bool(self._of) and not self._of.keys().isdisjoint(job_ids)

    def cover_all(self, job_ids: Iterable[str]) -> bool:
        return all(job_id in self._of for job_id in job_ids)

    def add(self, receipt: int, job_ids: Sequence[str], now: float) -> None:
        self._left[receipt] = len(job_ids)
        self._since[receipt] = now
        self._of.update(dict.fromkeys(job_ids, receipt))
        if not job_ids:
            self._end(receipt)

    def settled(self, job_ids: Iterable[str]) -> None:
        """These jobs are settled, or on their rows."""
        # Counted at once: a turn settles hundreds of jobs of a few receipts.
        for receipt, count in Counter(map(self._of.pop, job_ids, repeat(None))).items():
            if receipt in self._left:
                self._left[receipt] -= count
                if not self._left[receipt]:
                    self._end(receipt)

    def take_settled(self) -> list[int]:
        """Receipts to delete."""
        settled, self._settled = self._settled, []
        return settled

    def keep_settled(self, receipts: Iterable[int]) -> None:
        """They could not be deleted yet."""
        self._settled += receipts

    def older(self, than: float) -> list[int]:
        """Receipts of claims that have lasted since then. They are to go onto their rows."""
        return [receipt for receipt, since in self._since.items() if since <= than]

    def forget(self, receipts: Iterable[int]) -> None:
        """Their jobs are on their rows; a row that somebody held is left to the sweep of receipts that run out."""
        gone = {receipt for receipt in receipts if self._left.pop(receipt, None) is not None}
        for receipt in gone:
            del self._since[receipt]
        self._of = {job_id: receipt for job_id, receipt in self._of.items() if receipt not in gone}

    def _end(self, receipt: int) -> None:
        del self._left[receipt], self._since[receipt]
        self._settled.append(receipt)


class ReceiptWatch:
    """Ends the receipts of one engine's claims while there are any: those whose jobs are all settled, and those that
    last."""

    def __init__(self, engine: Engine, receipts: Receipts) -> None:
        self.receipts = receipts
        self._engine = engine
        self._watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        """Beside the exchanges: a claim that is in hand must not be lost for a receipt."""
        while self.receipts.are_there:
            await asyncio.sleep(ON_ROWS_AFTER_S / 2)
            # What cannot be written now is tried again with what comes next; a sweep finds it, too.
            with suppress(EuterpeError):
                await self._end_receipts(monotonic() - ON_ROWS_AFTER_S)

    async def _end_receipts(self, older_than: float) -> None:
        if lasting := self.receipts.older(older_than):
            await self._engine.write(partial(put_on_rows, lasting, limit=len(lasting)))
            self.receipts.forget(lasting)
        if settled := self.receipts.take_settled():
            try:
                await self._engine.write_one(partial(delete_receipts, settled))
            except BaseException:
                self.receipts.keep_settled(settled)
                raise

    async def close(self) -> None:
        """What runs when its store is closed is found on its rows; if that fails, when its receipt runs out."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        with suppress(EuterpeError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._end_receipts(math.inf)


def put_on_rows(
    receipts: Sequence[int] | None = None, worker_id: str | None = None, limit: int = SWEPT_AT_ONCE
) -> Program[int]:
    """The claims of these receipts, or of a worker's, or of those that ran out, go onto the rows of their jobs. A
    receipt with a job whose row somebody holds stays; returns how many there were."""
    held = [row[0] for row in (yield one("hold_receipts", receipts=receipts, worker_id=worker_id, limit=limit))]
    if held:
        yield one("receipts_to_rows", receipts=held)
        yield one("end_receipts", receipts=held)
    return len(held)


def delete_receipts(receipts: Sequence[int]) -> Program[None]:
    yield one("delete_receipts", receipts=list(receipts))
