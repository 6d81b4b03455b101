"""The jobs API: submit, look, cancel, retry. Every look and every act is bound to the requester of the key."""

from __future__ import annotations

import hashlib
from typing import Final, cast

import msgspec
from msgspec import UNSET

from euterpe.model.accounts import Scope
from euterpe.model.errors import JobNotFound
from euterpe.model.job import AttemptRow, JobRow, read_error
from euterpe.model.priority import parse_priority
from euterpe.model.reading.document import job_document, rfc3339
from euterpe.model.reading.job_query import joined, parse_query
from euterpe.model.reading.views import SCAN_LIMIT, Search, StoreStats
from euterpe.model.state import State
from euterpe.model.submitting.batch import SubmitResult, Unit, drafts_of
from euterpe.model.submitting.changes import Changes
from euterpe.model.submitting.submission import KEY_LIMIT
from euterpe.ports import Store, Wakeups
from euterpe.server.http.asgi import Answer, Header, Request
from euterpe.server.http.problems import Refusal
from euterpe.server.job_types import JobTypes
from euterpe.server.quotas import Quotas
from euterpe.server.routes.submissions import batch_key, canonical_dependency, drafts_of_batch, job_id_of, submission_of
from euterpe.server.traceparent import traceparent_of, with_parent
from euterpe.wire.attempt_logs import job_logs
from euterpe.wire.jobs import (
    AttemptDocument,
    BatchBody,
    CancelAnswer,
    CancelBody,
    DeadLetterBody,
    ErrorDocument,
    JobQuery,
    RequesterScope,
    RetryBody,
    StatsDocument,
    SubmissionBody,
    UpdateBody,
)

REPLAYED: Final[Header] = (b"idempotency-replayed", b"true")
EVERYBODY: Final = "*"


class JobRoutes:
    """Handlers over one store."""

    def __init__(self, store: Store, wakeups: Wakeups, quotas: Quotas, types: JobTypes) -> None:
        self._store = store
        self._quotas = quotas
        self._wakeups = wakeups
        self._types = types

    async def submit(self, request: Request, body: SubmissionBody) -> Answer:
        submission = submission_of(
            body,
            request.identity.requester_id,
            self._store.payload_limit,
            key=key_header(request),
            types=self._types,
        )
        submission = with_parent(submission, traceparent_of(request))
        if submission.depends_on:
            known = tuple(canonical_dependency(d, "/depends_on") for d in submission.depends_on)
            submission = msgspec.structs.replace(submission, depends_on=known)
        (submitted,) = await self._submit(Unit(drafts_of([submission])))
        location = (b"location", b"/jobs/" + submitted.job_id.encode())
        return Answer(202, submitted.response, headers=(location, REPLAYED) if submitted.replayed else (location,))

    async def submit_batch(self, request: Request, body: BatchBody) -> Answer:
        key = batch_key(body.idempotency_key, key_header(request))
        drafts = drafts_of_batch(
            body.jobs,
            request.identity.requester_id,
            self._store.payload_limit,
            traceparent_of(request),
            self._types,
        )
        submit_results = await self._submit(Unit(tuple(drafts), key=key))
        answer = b'{"jobs":[' + b",".join(submitted.response for submitted in submit_results) + b"]}"
        return Answer(202, answer, headers=(REPLAYED,) if all(r.replayed for r in submit_results) else ())

    async def _submit(self, unit: Unit) -> list[SubmitResult]:
        """What is stored already gets its first answer, though the quota is used up."""
        submissions = [draft.submission for draft in unit.drafts]
        try:
            await self._quotas.admit(submissions[0].requester_id, submissions, unit.key)
        except Refusal:
            stored = await self._store.control_plane.stored_answer(unit)
            if stored is None:
                raise
            return stored
        return await self._store.submit_graph(unit.drafts, key=unit.key)

    async def get(self, request: Request, whose: RequesterScope) -> Answer:
        job = await self._store.get(_job_id(request), requester_asked_for(request, whose))
        return Answer(200, msgspec.json.encode(job_document(job)))

    async def search(self, request: Request, query: JobQuery) -> Answer:
        name, _, value = (query.tag or "").partition(":")
        search = Search(
            requester_id=requester_asked_for(request, query),
            state=None if query.state is None else State(query.state),
            type=query.type,
            queue=query.queue,
            tag=(name, value) if query.tag else None,
            cursor=query.cursor,
            limit=query.limit,
            scan_limit=SCAN_LIMIT,
        )
        if query.q is not None:
            search = joined(parse_query(query.q, await self._store.now_us()), search)
        page = await self._store.search(search)
        return Answer(200, _page(page.jobs, page.cursor))

    async def attempts(self, request: Request, whose: RequesterScope) -> Answer:
        attempts = await self._store.attempts(_job_id(request), requester_asked_for(request, whose))
        return Answer(200, msgspec.json.encode({"attempts": [_attempt_document(a) for a in attempts]}))

    async def logs(self, request: Request, whose: RequesterScope) -> Answer:
        job_id = _job_id(request)
        logs = await self._store.attempt_logs(job_id, requester_asked_for(request, whose))
        return Answer(200, msgspec.json.encode(job_logs(job_id, logs)))

    async def why(self, request: Request, whose: RequesterScope) -> Answer:
        explanation = await self._store.why(_job_id(request), requester_asked_for(request, whose))
        return Answer(200, msgspec.json.encode(explanation))

    async def cancel(self, request: Request, body: CancelBody) -> Answer:
        job_id = _job_id(request)
        state = await self._store.cancel(job_id, requester_asked_for(request, body), force=body.force)
        answer = CancelAnswer(job_id, state.value, cancel_requested=state is State.RUNNING)
        return Answer(200, msgspec.json.encode(answer))

    async def retry(self, request: Request, body: RetryBody) -> Answer:
        job_id, key = _job_id(request), key_header(request)
        if key is not None:
            # Of its own kind: the same text may be the key of a submission, or of another job's retry.
            key = f"retry:{job_id}:{hashlib.sha256(key.encode()).hexdigest()}"
        whose = requester_asked_for(request, body)
        await self._quotas.admit_again(self._store, job_id, whose)
        if body.dependents:
            replayed = await self._store.replay(job_id, whose)
            first = replayed.first
            job = first if isinstance(first, JobRow) else await self._store.get(first.job_id, whose)
        else:
            job = await self._store.retry(job_id, whose, key)
        self._wakeups.announce([job.queue])
        location = (b"location", b"/jobs/" + job.id.encode())
        return Answer(202, msgspec.json.encode(job_document(job)), headers=(location,))

    async def dead_letter(self, request: Request, body: DeadLetterBody) -> Answer:
        job_id = _job_id(request)
        whose = requester_asked_for(request, body)
        await self._store.dead_letter(job_id, whose)
        return Answer(200, msgspec.json.encode(job_document(await self._store.get(job_id, whose))))

    async def update(self, request: Request, body: UpdateBody) -> Answer:
        changes = Changes(
            priority=UNSET if body.priority is UNSET else parse_priority(body.priority),
            tags=body.tags,
            correlation_id=body.correlation_id,
            callback_url=body.callback_url,
        )
        job = await self._store.update(_job_id(request), changes, requester_asked_for(request, body))
        return Answer(200, msgspec.json.encode(job_document(job)))

    async def stats(self, request: Request, whose: RequesterScope) -> Answer:
        stats = await self._store.stats(requester_asked_for(request, whose))
        return Answer(200, msgspec.json.encode(_stats_document(stats)))


def requester_asked_for(request: Request, scope: RequesterScope) -> str | None:
    """The requester to look for; None means everybody's, which only an admin may say."""
    own = request.identity.requester_id
    if scope.requester is None or scope.requester == own:
        return own
    if Scope.ADMIN not in request.identity.scopes:
        raise Refusal(403, "forbidden", "other requesters' jobs need scope admin", pointer="/requester")
    return None if scope.requester == EVERYBODY else scope.requester


def key_header(request: Request) -> str | None:
    header = request.header(b"idempotency-key")
    if header is None:
        return None
    try:
        key = header.decode("utf-8")
    except UnicodeDecodeError:
        key = ""
    if not 1 <= len(key) <= KEY_LIMIT or "\x00" in key:
        detail = f"the Idempotency-Key header must have 1 to {KEY_LIMIT} characters of UTF-8"
        raise Refusal(422, "invalid_input", detail, pointer="/idempotency_key")
    return key


def _job_id(request: Request) -> str:
    text = request.parameters["job_id"]
    job_id = job_id_of(text)
    if job_id is None:
        raise JobNotFound(text[:100])
    return job_id


def _page(jobs: list[JobRow], cursor: str | None) -> bytes:
    encoded = b",".join(msgspec.json.encode(job_document(job)) for job in jobs)
    return b'{"jobs":[' + encoded + b'],"cursor":' + msgspec.json.encode(cursor) + b"}"


def _attempt_document(attempt: AttemptRow) -> AttemptDocument:
    return AttemptDocument(
        attempt_id=attempt.attempt_id,
        attempt=attempt.attempt,
        worker_id=attempt.worker_id,
        started_at=rfc3339(attempt.started_at) or "",
        ended_at=rfc3339(attempt.ended_at),
        outcome=attempt.outcome,
        error=None if attempt.error is None else cast(ErrorDocument, read_error(attempt.error)),
    )


def _stats_document(stats: StoreStats) -> StatsDocument:
    ages = {queue: age_us / 1_000_000 for queue, age_us in stats.oldest_age_us.items()}
    return StatsDocument(
        stats.by_state, stats.by_queue, stats.by_type, ages, stats.per_minute, stats.outbox, list(stats.estimated)
    )
