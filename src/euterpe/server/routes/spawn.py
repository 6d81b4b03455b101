"""Children of a running job: stored all or none, under the lease that their parent runs under.

They belong to the parent's requester, whoever's worker runs it. Safe to repeat: with a key, the same request of the
same attempt gets the first answer, also when the attempt is over by then.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from euterpe.model.errors import JobNotFound, StaleLease
from euterpe.model.submitting.batch import Parent, SubmitResult, Unit
from euterpe.ports import ControlPlaneStore, Store
from euterpe.server.http.asgi import Answer, Request
from euterpe.server.http.problems import refused_lease
from euterpe.server.job_types import JobTypes
from euterpe.server.routes.reports import lease_of
from euterpe.server.routes.submissions import drafts_of_batch
from euterpe.wire.worker import SpawnAnswer, SpawnBody, SpawnedJob

_STALE: Final = "this lease is over, or was never yours; nothing was stored"


class SpawnRoutes:
    """Spawning over one store."""

    def __init__(self, store: Store, claims: ControlPlaneStore, types: JobTypes) -> None:
        self._store = store
        self._claims = claims
        self._types = types

    async def spawn(self, _: Request, body: SpawnBody) -> Answer:
        lease = lease_of(body, body.worker_id)
        if lease is None or not await self._claims.check_lease(lease):
            raise refused_lease(_STALE)
        try:
            parent = await self._store.get(lease.job_id)
            drafts = drafts_of_batch(body.jobs, parent.requester_id, self._store.payload_limit, types=self._types)
            unit = Unit(tuple(drafts), key=_key(body), parent=Parent(*lease.claim, in_time=True))
            submit_results = await self._store.submit_unit(unit)
        except (StaleLease, JobNotFound):
            raise refused_lease(_STALE) from None
        return Answer(200, msgspec.json.encode(SpawnAnswer(ok=True, jobs=[*map(_spawned, submit_results)])))


def _key(body: SpawnBody) -> str | None:
    """Of this attempt and token alone: who has another token cannot ask for the answer."""
    if body.idempotency_key is None:
        return None
    encoded = msgspec.json.encode((body.lease_token, body.idempotency_key))
    return f"spawn:{body.attempt_id.lower()}:{hashlib.sha256(encoded).hexdigest()}"


def _spawned(submitted: SubmitResult) -> SpawnedJob:
    return msgspec.convert(submitted, SpawnedJob, from_attributes=True)
