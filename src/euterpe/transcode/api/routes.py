"""POST /transcode, GET /transcode/status, PUT /transcode/{job_id}/credentials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from euterpe.backends.database import database_of
from euterpe.egress.target import EgressPolicy
from euterpe.model.accounts import Scope
from euterpe.model.errors import CommitUnknown, EuterpeError, InvalidInput, JobNotFound
from euterpe.model.submitting.batch import Draft, SubmitResult, Unit, drafts_of, new_ids
from euterpe.ports import Store
from euterpe.server.http.asgi import Answer, Header, Request
from euterpe.server.http.problems import FieldError, Refusal
from euterpe.server.http.router import AnyRoute, JsonObject, ReplySpec, Route
from euterpe.server.quotas import Quotas
from euterpe.server.routes.jobs import REPLAYED, key_header, requester_asked_for
from euterpe.server.routes.submissions import job_id_of
from euterpe.server.traceparent import traceparent_of, with_parent
from euterpe.transcode.api import wire
from euterpe.transcode.api.status import Statuses
from euterpe.transcode.credentials.repository import CredentialStore, forget
from euterpe.transcode.credentials.update import CredentialsRefused, UpdateInvalid, update_credentials
from euterpe.transcode.estimate import RunHistory
from euterpe.transcode.schema.reading import FieldProblem
from euterpe.transcode.schema.request import RequestInvalid, TranscodeRequest, invalid, read_request

TAG: Final = "Transcoding"


class TranscodeRoutes:
    def __init__(
        self,
        store: Store,
        credentials: CredentialStore,
        quotas: Quotas,
        policy: EgressPolicy,
        job_queue: str = "default",
        *,
        takes_local: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._credentials = credentials
        self._history = RunHistory(database_of(store))
        self._statuses = Statuses(store, credentials, self._history)
        self._quotas = quotas
        self._policy = policy
        self._job_queue = job_queue
        self._takes_local = takes_local
        self._clock = clock

    async def submit(self, request: Request, body: JsonObject) -> Answer:
        try:
            wanted = self._read(request, body, self._clock())
            submission = with_parent(wanted.submission, traceparent_of(request))
            expected_ms = await self._history.expected_ms(wanted.outputs)
            if expected_ms is not None:
                submission = msgspec.structs.replace(submission, expected_us=expected_ms * 1000)
            await self._quotas.admit(submission.requester_id, [submission])
        except Refusal:
            # The same request may be refused now for what has changed since: its time, or a quota.
            submitted = await self._stored_answer(request, body)
            if submitted is None:
                raise
            return _answer(submitted)
        job_id = new_ids(1)[0]
        # Before the job: no worker may find it without them. What belongs to no job is removed again.
        await self._credentials.create(
            job_id, submission.requester_id, wanted.locations, wanted.credentials, wanted.refresh_url
        )
        try:
            (submitted,) = await self._store.submit_graph([Draft(job_id, submission)])
        except CommitUnknown:
            raise  # The job may be there, and then it needs them.
        except EuterpeError as error:
            await self._forget(job_id)
            if isinstance(error, InvalidInput):
                raise _refused(invalid(error).problems) from None
            raise
        if submitted.job_id != job_id:
            await self._forget(job_id)
        return _answer(submitted)

    async def _stored_answer(self, request: Request, body: JsonObject) -> SubmitResult | None:
        """Of an earlier request that was the same but for its credentials, whose expiry does not count here."""
        if key_header(request) is None:
            return None
        wanted = self._read(request, body, now_s=0)
        found = await self._store.control_plane.stored_answer(Unit(drafts_of([wanted.submission])))
        return None if found is None else found[0]

    async def _forget(self, job_id: str) -> None:
        with suppress(EuterpeError):
            await database_of(self._store).write(lambda: forget([job_id]))

    async def status(self, request: Request, query: wire.StatusQuery) -> Answer:
        if not query.job_id:
            raise Refusal(422, "invalid_input", "say which: ?job_id=", pointer="/job_id")
        document = await self._statuses.get(_job_id(query.job_id), requester_asked_for(request, query))
        return Answer(200, msgspec.json.encode(document))

    async def update(self, request: Request, body: JsonObject) -> Answer:
        job_id = _job_id(request.parameters["job_id"])
        header = request.header(b"if-match")
        try:
            updated = await update_credentials(
                self._credentials,
                job_id,
                request.identity.requester_id,
                None if header is None else header.decode("latin-1"),
                body.members,
                self._policy,
                self._clock(),
            )
        except UpdateInvalid as problem:
            raise _refused(problem.problems) from None
        except CredentialsRefused as refused:
            raise Refusal(refused.http_status, refused.code, str(refused)) from None
        answer = wire.CredentialsAccepted(job_id=job_id, credential_version=updated.credential_version)
        etag = (b"etag", f'"{updated.credential_version}"'.encode())
        return Answer(200, msgspec.json.encode(answer), headers=(etag,))

    def _read(self, request: Request, body: JsonObject, now_s: float) -> TranscodeRequest:
        try:
            return read_request(
                body.members,
                self._policy,
                now_s,
                requester_id=request.identity.requester_id,
                idempotency_key=key_header(request),
                queue=self._job_queue,
                takes_local=self._takes_local,
                payload_limit=self._store.payload_limit,
            )
        except RequestInvalid as problem:
            raise _refused(problem.problems) from None


def transcode_routes(routes: TranscodeRoutes) -> list[AnyRoute]:
    no_job = {404: "No such transcode, or another requester's.", 410: "It ended and its record was pruned."}
    accepted = ReplySpec(
        "Stored.", wire.TranscodeAccepted, example=wire.ACCEPTED, headers=("Location", "Idempotency-Replayed")
    )
    updated = ReplySpec("Sealed and stored: the next request to the store uses them.", wire.CredentialsAccepted)
    return [
        Route(
            "POST",
            "/transcode",
            routes.submit,
            wire.TranscodeBody,
            "Transcode a source",
            {202: accepted},
            Scope.SUBMIT,
            TAG,
            description="Enqueues only. With an Idempotency-Key the same request gets the same answer, byte for byte; "
            "credentials and the queries of signed URLs may differ.",
            problems={409: "The idempotency key was used for another request."},
            example=wire.REQUEST,
            request_headers=("Idempotency-Key", "traceparent"),
            reads_itself=True,
        ),
        Route(
            "GET",
            "/transcode/status",
            routes.status,
            wire.StatusQuery,
            "How a transcode is",
            {200: ReplySpec("For every status.", wire.TranscodeStatus)},
            Scope.READ,
            TAG,
            problems=no_job,
        ),
        Route(
            "PUT",
            "/transcode/{job_id}/credentials",
            routes.update,
            wire.CredentialsUpdate,
            "Fresh credentials for a transcode",
            {200: updated},
            Scope.SUBMIT,
            TAG,
            description="The whole set, for the same places. `If-Match` names the `credential_version` that was seen.",
            problems={
                404: no_job[404],
                409: "The transcode has ended.",
                412: "The version has passed.",
                428: "If-Match is missing.",
            },
            request_headers=("If-Match",),
            reads_itself=True,
        ),
    ]


def _answer(submitted: SubmitResult) -> Answer:
    headers: tuple[Header, ...] = ((b"location", _status_url(submitted.job_id).encode()),)
    return Answer(202, _accepted(submitted), headers=(*headers, REPLAYED) if submitted.replayed else headers)


def _accepted(submitted: SubmitResult) -> bytes:
    """Made of what the answer keeps, so that a replay gives the same bytes."""
    return msgspec.json.encode(
        wire.TranscodeAccepted(
            job_id=submitted.job_id,
            status="queued",
            external_id=submitted.correlation_id,
            credential_version=1,
            status_url=_status_url(submitted.job_id),
            created_at=submitted.created_at,
            expected_seconds=None if submitted.expected_us is None else submitted.expected_us / 1_000_000,
        )
    )


def _status_url(job_id: str) -> str:
    return f"/transcode/status?job_id={job_id}"


def _job_id(text: str) -> str:
    job_id = job_id_of(text)
    if job_id is None:
        raise JobNotFound(text[:100])
    return job_id


def _refused(problems: Sequence[FieldProblem]) -> Refusal:
    first = problems[0] if problems else FieldProblem("", "invalid", "the body cannot be used")
    errors = [FieldError(problem.pointer, problem.code, problem.message) for problem in problems]
    return Refusal(422, "invalid_input", first.message, pointer=first.pointer, errors=errors)
