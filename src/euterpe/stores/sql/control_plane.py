"""What a control plane asks of its database beside the jobs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.reading.views import Change, Usage
from euterpe.model.submitting.batch import SubmitResult, Unit
from euterpe.stores.sql.reads.changes import changes
from euterpe.stores.sql.reads.usage import usage
from euterpe.stores.sql.submitting.submit import stored_answer
from euterpe.stores.sql.worker_protocol.store import WorkerProtocolStore


class SqlControlPlane(WorkerProtocolStore):
    """The worker protocol's side of the store, with the reads that a requester's feed and quotas need."""

    async def changes(self, requesters: Sequence[str], since: int, followed: Sequence[str]) -> list[Change]:
        return await self._engine.read(lambda: changes(requesters, since, followed))

    async def stored_answer(self, unit: Unit) -> list[SubmitResult] | None:
        return await self._engine.read(lambda: stored_answer(unit))

    async def usage(self, *, of_jobs: bool, of_keys: bool) -> dict[str, Usage]:
        return await usage(self._engine, of_jobs=of_jobs, of_keys=of_keys)
