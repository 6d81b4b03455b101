"""What forms do. Each comes from an admin's own page, acts once, and goes to the page that shows what came of it."""

from __future__ import annotations

import msgspec

from euterpe.dashboard.layout import JOBS
from euterpe.dashboard.page_server import Form, PageServer
from euterpe.dashboard.parts.masking import edited_payload
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.errors import InvalidInput, JobNotFound
from euterpe.model.state import TRANSCODE, State
from euterpe.model.submitting.replay import replay_of
from euterpe.ports import Store, Wakeups
from euterpe.server.http.asgi import Answer, Request
from euterpe.server.quotas import Quotas
from euterpe.server.routes.submissions import job_id_of


class CancelForm(Form, frozen=True):
    """`force` takes a running job from its worker."""

    force: str | None = None


class ReplayForm(Form, frozen=True):
    """The payload of the new job."""

    payload: str | None = None


class JobActs:
    """Cancel, retry, replay."""

    def __init__(self, server: PageServer, store: Store, wakeups: Wakeups, quotas: Quotas) -> None:
        self._server = server
        self._quotas = quotas
        self._store = store
        self._wakeups = wakeups

    async def cancel(self, request: Request, said: CancelForm) -> Answer:
        async def do(visitor: Visitor) -> str:
            job_id = _job_id(request)
            state = await self._store.cancel(job_id, visitor.sees, force=said.force == "yes")
            return _page(job_id, "cancel-requested" if state is State.RUNNING else "cancelled")

        return await self._server.act(request, said.csrf, do)

    async def retry(self, request: Request, said: Form) -> Answer:
        async def do(visitor: Visitor) -> str:
            job_id = _job_id(request)
            await self._quotas.admit_again(self._store, job_id, visitor.sees)
            job = await self._store.retry(job_id, visitor.sees)
            self._wakeups.announce([job.queue])
            return _page(job.id, "retried" if job.id == job_id else "replayed")

        return await self._server.act(request, said.csrf, do)

    async def replay(self, request: Request, said: ReplayForm) -> Answer:
        async def do(visitor: Visitor) -> str:
            job = await self._store.get(_job_id(request), visitor.sees)
            if job.payload_format != "json":
                raise InvalidInput("payload", "is not JSON, so it cannot be edited here")
            if job.type == TRANSCODE:
                raise InvalidInput("payload", "of a transcode cannot be edited; submit another by POST /transcode")
            payload = edited_payload(said.payload or "", job.payload)
            replay = msgspec.structs.replace(replay_of(job), payload=payload)
            await self._quotas.admit(job.requester_id, [replay])
            submitted = await self._store.submit(replay)
            return _page(submitted.job_id, "replayed")

        return await self._server.act(request, said.csrf, do)


def _job_id(request: Request) -> str:
    said = request.parameters["job_id"]
    job_id = job_id_of(said)
    if job_id is None:
        raise JobNotFound(said[:100])
    return job_id


def _page(job_id: str, said: str) -> str:
    return f"{JOBS}/{job_id}?said={said}"
