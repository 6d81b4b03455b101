"""The face of the store for acts on everything that matches a query, and the work on them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import shuffle
from typing import ClassVar, Final

import msgspec

from euterpe.model.bulk import BATCH, BulkOperation, BulkOrder, BulkProgress, JobCount, OperationState, check_order
from euterpe.model.errors import DataRejected, InvalidInput
from euterpe.model.reading.views import Search
from euterpe.ports import OPERATIONS_CHANNEL, Telemetry, Wakeups
from euterpe.stores.sql.bulk import batches, operation_rows
from euterpe.stores.sql.engine import Engine, LockTimeout
from euterpe.stores.sql.jobs.ended_jobs import EndedBy, EndReporter
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.reads.matching import Matching, count, count_with_dependents

BUDGET_S: Final = 0.5
"""Of one pass. Sweeps that recover lost jobs wait no longer than this for an operation."""
UNREADABLE: Final = "the stored operation cannot be read; order it again"
AT_A_TIME: Final = 100
"""Operations that are worked on in turns; the others wait for these."""


Reporting = Callable[[], Telemetry | None]
"""Who counts what happens, if anybody does by now."""
Waking = Callable[[], Wakeups | None]
"""How those who work on operations are told, if anybody listens by now."""


class Operations:
    """Stored, and worked off by any process that comes by."""

    batch: ClassVar[int] = BATCH

    def __init__(
        self, engine: Engine, end_reporter: EndReporter, payload_limit: int, telemetry: Reporting, wakeups: Waking
    ) -> None:
        self._engine = engine
        self._end_reporter = end_reporter
        self._payload_limit = payload_limit
        self._telemetry = telemetry
        self._wakeups = wakeups

    async def count(self, query: Search, *, dependents: bool = False) -> JobCount:
        return await self._engine.read(lambda: count_with_dependents(query) if dependents else count(query))

    async def order(self, order: BulkOrder) -> tuple[BulkOperation, bool]:
        check_order(order)
        counted = await self.count(order.search)  # Not inside the transaction: it may take a while.
        operation, known = await self._engine.write(lambda: operation_rows.order(order, counted))
        wakeups = self._wakeups()
        if wakeups is not None and operation.state is OperationState.RUNNING:
            wakeups.announce([OPERATIONS_CHANNEL])
        return operation, known

    async def get(self, operation_id: str, ordered_by: str | None = None) -> BulkOperation:
        return await self._engine.read(lambda: operation_rows.get(operation_id, ordered_by))

    async def list(self, ordered_by: str | None = None, limit: int = 50) -> list[BulkOperation]:
        return await self._engine.read(lambda: operation_rows.listed(ordered_by, limit))

    async def cancel(self, operation_id: str, ordered_by: str | None = None) -> BulkOperation:
        return await self._engine.write(lambda: operation_rows.cancel(operation_id, ordered_by))

    async def work(self) -> BulkProgress:
        """A batch of each running operation in turn, until nothing is left or the time of a pass is over."""
        give_up_at = time.monotonic() + BUDGET_S
        queues: list[str] = []
        replayed: list[str] = []
        done = 0
        while True:
            more = False
            running, unreadable = await self._engine.read(_running)
            for operation_id, place in unreadable:
                await self._engine.write(partial(batches.abandon, operation_id, place, UNREADABLE))
            shuffle(running)  # When time runs out, it runs out for another one each time.
            for operation in running:
                progress = await self._batch(operation)
                if progress is not None:
                    queues += progress.queues
                    replayed += progress.replayed
                    done += progress.done
                    more = more or progress.more
                if time.monotonic() > give_up_at:
                    return BulkProgress(tuple(queues), tuple(replayed), done, more=True)
            if not more:
                return BulkProgress(tuple(queues), tuple(replayed), done)

    async def _batch(self, operation: BulkOperation) -> BulkProgress | None:
        try:
            found = await self._engine.read(lambda: batches.next_of(operation, self.batch))
        except InvalidInput as unreadable:
            reason = str(unreadable)
            await self._engine.write(lambda: batches.abandon(operation.id, operation.place, reason, operation.skipped))
            return None
        try:
            return await self._act(operation, found)
        except (DataRejected, LockTimeout):
            first = _first_of(found)
        try:
            return await self._act(operation, first)
        except LockTimeout:
            return None  # Somebody holds this very job. The next pass asks again; other operations go on.
        except DataRejected as refused:
            reason = str(refused)
            return await self._engine.write(lambda: batches.give_up(operation, first, reason))

    async def _act(self, operation: BulkOperation, found: Matching) -> BulkProgress | None:
        family = self._engine.family
        progress = await self._end_reporter.write(
            lambda: batches.act(operation, found, family, self._payload_limit), EndedBy.OPERATOR
        )
        telemetry = self._telemetry()
        if progress is not None and telemetry is not None:
            for queue, jobs in Counter(progress.replayed).items():
                telemetry.produced(queue, jobs)
            for queue, jobs in (Counter(progress.queues) - Counter(progress.replayed)).items():
                telemetry.retried(queue, jobs)
        return progress


def _first_of(found: Matching) -> Matching:
    """One job alone: another one of its batch may be what the database refuses, or somebody holds."""
    if len(found.ids) < 2:
        return found
    return Matching(found.ids[:1], found.places[:1], found.places[0])


def _running() -> Program[tuple[list[BulkOperation], list[tuple[str, int]]]]:
    """Those that can be read, and id and place of those that cannot."""
    rows = yield one("running_operations", limit=AT_A_TIME)
    running, unreadable = [], []
    for row in rows:
        try:
            running.append(operation_rows.operation_from(row))
        except msgspec.MsgspecError:
            unreadable.append((str(row[0]), int(row[operation_rows.PLACE])))
    return running, unreadable
