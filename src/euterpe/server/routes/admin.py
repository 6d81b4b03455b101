"""What operators ask and do about everybody's jobs: who works on them, pause and resume, throw dead letters away."""

from __future__ import annotations

import msgspec

from euterpe.model.accounts import Scope
from euterpe.model.submitting.batch import as_stored
from euterpe.ports import Store, Wakeups
from euterpe.server.http.asgi import Answer, Request
from euterpe.server.http.problems import Refusal
from euterpe.server.http.router import AnyRoute, ReplySpec, Route
from euterpe.wire.admin import PauseBody, PausedDocument, PausesDocument, PurgeAnswer, PurgeBody
from euterpe.wire.jobs import NoInput
from euterpe.wire.workers import WORKERS_EXAMPLE, WorkersDocument, WorkersQuery, worker_document

PAUSED_EXAMPLE = {"paused": [{"kind": "queue", "name": "mail"}]}


class AdminRoutes:
    """Handlers over the operator's side of a store."""

    def __init__(self, store: Store, wakeups: Wakeups) -> None:
        self._store = store
        self._wakeups = wakeups

    async def workers(self, _: Request, query: WorkersQuery) -> Answer:
        found = await self._store.workers.list(query.limit)
        return Answer(200, msgspec.json.encode(WorkersDocument([*map(worker_document, found)])))

    async def paused(self, _: Request, __: NoInput) -> Answer:
        return await self._paused()

    async def pause(self, _: Request, body: PauseBody) -> Answer:
        await self._store.pause(*_kind_and_name(body))
        return await self._paused()

    async def resume(self, _: Request, body: PauseBody) -> Answer:
        kind, name = _kind_and_name(body)
        await self._store.resume(kind, name)
        waiting = [name] if kind == "queue" else {depth.queue for depth in await self._store.depths()}
        self._wakeups.announce(waiting)
        return await self._paused()

    async def purge(self, _: Request, body: PurgeBody) -> Answer:
        ids = [stored_id for job_id in body.job_ids if (stored_id := as_stored(job_id)) is not None]
        gone = await self._store.purge(ids) if ids else []
        return Answer(200, msgspec.json.encode(PurgeAnswer(gone)))

    async def _paused(self) -> Answer:
        found = [PausedDocument(kind, name) for kind, name in await self._store.paused()]  # type: ignore[arg-type]  # a CHECK of the table holds it to these words
        return Answer(200, msgspec.json.encode(PausesDocument(found)))


def _kind_and_name(body: PauseBody) -> tuple[str, str]:
    if body.queue is not None and body.type is None:
        return "queue", body.queue
    if body.type is not None and body.queue is None:
        return "type", body.type
    raise Refusal(422, "invalid_input", "name a queue or a type, one of the two", pointer="/queue")


def admin_routes(admin: AdminRoutes) -> list[AnyRoute]:
    tag, paused = "Operations", ReplySpec("What is paused then.", PausesDocument, example=PAUSED_EXAMPLE)
    purged = ReplySpec("Those that were there.", PurgeAnswer, example={"purged": []})
    alive = ReplySpec("Idle ones too.", WorkersDocument, example=WORKERS_EXAMPLE)
    return [
        Route(
            "GET",
            "/workers",
            admin.workers,
            WorkersQuery,
            "Which workers are alive",
            {200: alive},
            Scope.ADMIN,
            tag,
            description="Every worker that was heard of in the last minute: what it listens to, knows and runs, and "
            "its circuit breakers that are not closed.",
        ),
        Route("GET", "/pauses", admin.paused, NoInput, "What is paused", {200: paused}, Scope.READ, tag),
        Route(
            "POST",
            "/pauses",
            admin.pause,
            PauseBody,
            "Pause a queue or a job type",
            {200: paused},
            Scope.ADMIN,
            tag,
            description="No worker claims from it until it is resumed. What runs already goes on.",
            example={"queue": "mail"},
        ),
        Route(
            "POST",
            "/pauses/resume",
            admin.resume,
            PauseBody,
            "Resume a queue or a job type",
            {200: paused},
            Scope.ADMIN,
            tag,
            example={"queue": "mail"},
        ),
        Route(
            "POST",
            "/dead-letters/purge",
            admin.purge,
            PurgeBody,
            "Throw dead letters away for good",
            {200: purged},
            Scope.ADMIN,
            tag,
            description="All or none. `GET /jobs?state=dead_letter` lists them; "
            "`POST /jobs/{job_id}/retry` replays one.",
            problems={409: "One of the jobs is no dead letter."},
            example={"job_ids": ["0198c5a1-7c1e-7d35-9a53-2f8b6f2f9b11"]},
        ),
    ]
