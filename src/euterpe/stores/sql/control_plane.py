"""What a control plane asks of its database beside the jobs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.reading.views import Change, Usage
from euterpe.stores.sql.reads.changes import changes
from euterpe.stores.sql.reads.usage import usage
from euterpe.stores.sql.worker_protocol.store import WorkerProtocolStore


class SqlControlPlane(WorkerProtocolStore):
    """The worker protocol's side of the store, with the reads that a requester's feed and quotas need."""

    async def changes(self, requesters: Sequence[str], since: int, followed: Sequence[str]) -> list[Change]:
        return await self._engine.read(lambda: changes(requesters, since, followed))

    async def usage(self, *, of_jobs: bool, of_keys: bool) -> dict[str, Usage]:
        return await self._engine.read(lambda: usage(of_jobs=of_jobs, of_keys=of_keys))
