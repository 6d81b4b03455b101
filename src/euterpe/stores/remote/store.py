"""A control plane as a store: `Queue("http://control-plane", token=...)` submits and works over plain HTTP.

A worker reports and claims in batches, one request for both. One claim at a time waits at the server for work to come.
What HTTP cannot carry raises `Unsupported`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection, Iterable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from euterpe.model.bulk import BulkProgress
from euterpe.model.claims.attempt_log import AttemptLog
from euterpe.model.claims.exchange import (
    LEASE_TTL_US,
    ClaimRequest,
    HeartbeatReply,
    ProgressUpdate,
    Report,
    SettleResult,
)
from euterpe.model.claims.heartbeat_turns import HeartbeatTurns
from euterpe.model.errors import EuterpeError, JobNotFound, StoreUnavailable
from euterpe.model.failures.group import FailureGroups
from euterpe.model.job import AttemptRow, Claim, JobRow, Lease
from euterpe.model.reading.views import QueueDepth, Search, SearchPage, StoreStats
from euterpe.model.reading.why import Explanation
from euterpe.model.retention import KEEP, Chore, Swept
from euterpe.model.state import State, stage_ordinal
from euterpe.model.submitting.batch import SubmitResult, Unit, as_stored, drafts_of
from euterpe.model.submitting.changes import Changes, check_changes
from euterpe.model.submitting.replayed import Replayed
from euterpe.model.submitting.submission import (
    LOCAL_REQUESTER,
    PAYLOAD_LIMIT,
    Submission,
    check,
)
from euterpe.ports import CANCEL_CHANNEL, Capability
from euterpe.stores.limited import LimitedStore
from euterpe.stores.remote.documents import (
    AttemptReply,
    JobPageReply,
    JobReply,
    attempt_of,
    body_of,
    criteria_of,
    job_of,
)
from euterpe.stores.remote.exchange import NAMELESS, NO_TOKEN, RemoteExchange
from euterpe.stores.remote.operations import RemoteOperations
from euterpe.stores.remote.session import (
    AccessRefused,
    ControlPlaneSession,
    HttpReply,
    Subject,
    requester_params,
    with_token,
)
from euterpe.stores.remote.workers import RemoteWorkers
from euterpe.stores.sql.reads.search import check_search
from euterpe.wire.admin import PausesDocument, PurgeAnswer
from euterpe.wire.attempt_logs import attempt_logs_of
from euterpe.wire.worker import OWN_REGISTRATION, OWN_SPANS

__all__ = ["AccessRefused", "HttpStore", "with_token"]

WAIT_MS: Final = 1_000
"""How long a claim waits for work. A worker that stops waits for it to return, so it is short."""
PAGE_LIMIT: Final = 200
AT_ONCE: Final = 24
"""News under way: some connections stay free for claims and reports."""
OUTAGE_WAIT_S: Final = 10.0
SPAWN: Final = "/internal/worker/spawn"


def _refuse_other_requesters(submissions: Iterable[Submission]) -> None:
    """The key says whose the jobs are. Another requester would be lost on the way, and the job be somebody else's."""
    if any(submission.requester_id != LOCAL_REQUESTER for submission in submissions):
        HttpStore.refuse("submit for another requester than its key's")


class HttpStore(LimitedStore):
    """The jobs API behind the methods of a store. What HTTP cannot carry raises Unsupported."""

    kind = "a queue over HTTP"
    instead = "connect to the control plane's own database: --engine or ENGINE_URL names it"

    capabilities: frozenset[Capability] = frozenset(
        {
            Capability.DEPENDENCIES,
            Capability.CONCURRENCY_KEYS,
            Capability.UNIQUE_KEYS,
            Capability.SEARCH,
            Capability.BULK,
            Capability.LOG_LINES,
            Capability.WORKERS,
            Capability.PREFETCH,
        }
    )
    """A key speaks for one requester, and the control plane decides the rest."""

    def __init__(self, url: str, *, payload_limit: int = PAYLOAD_LIMIT) -> None:
        super().__init__(payload_limit)
        self._session = ControlPlaneSession(url)
        self.operations = RemoteOperations(self._session)
        self._exchange = RemoteExchange(self._session)
        self.sweeps = RemoteSweeps(self._exchange)
        self.workers = RemoteWorkers(self._session)
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def open(self) -> None:
        self._slots = asyncio.Semaphore(AT_ONCE)
        await self._session.open()
        name, value = OWN_REGISTRATION
        self._session.say_always(name.decode(), value.decode())

    def expect_leases_of(self, seconds: float) -> None:
        """The control plane has said itself how long a lease is."""

    async def close(self) -> None:
        await self._session.close()

    def expect_own_spans(self) -> None:
        """The control plane, if it traces too, must not make a second span of the same attempt."""
        name, value = OWN_SPANS
        self._session.say_always(name.decode(), value.decode())

    async def ping(self) -> None:
        """Raises StoreUnavailable when the control plane, or its database, does not answer."""
        await self._session.get("/readyz", {})

    # --- submit ---------------------------------------------------------------------------------------

    async def submit_unit(self, unit: Unit) -> list[SubmitResult]:
        if unit.parent is not None:
            self.refuse("spawn jobs without the lease of their parent")
        _refuse_other_requesters(draft.submission for draft in unit.drafts)
        if len(unit.drafts) == 1 and unit.key is None:
            submission = unit.drafts[0].submission
            path, body, key = "/jobs", body_of(submission), submission.idempotency_key
        else:
            path, body, key = "/jobs/batch", _batch(unit), unit.key
        reply = await self._submit(path, body, key)
        replayed = "idempotency-replayed" in reply.headers
        answer = msgspec.json.decode(reply.body)
        submit_results = [
            msgspec.structs.replace(msgspec.convert(one, SubmitResult), replayed=replayed)
            for one in (answer["jobs"] if path == "/jobs/batch" else [answer])
        ]
        self._announce_ready(submit_results)
        return submit_results

    def _announce_ready(self, submit_results: Sequence[SubmitResult]) -> None:
        ready = {
            submitted.queue
            for submitted in submit_results
            if submitted.state == State.SCHEDULED and not submitted.replayed
        }
        if self.wakeups is not None and ready:
            self.wakeups.announce(ready)

    async def spawn(self, parent: Lease, submissions: Sequence[Submission]) -> list[SubmitResult]:
        """Children of a running job, for its requester; StaleLease when the lease is over."""
        for submission in submissions:
            check(submission, self.payload_limit)
        if not submissions:
            return []
        _refuse_other_requesters(submissions)
        body = _batch(Unit(drafts_of(submissions), key=secrets.token_hex(16))) | {
            "worker_id": parent.worker_id or NAMELESS,
            "job_id": parent.job_id,
            "attempt_id": parent.attempt_id,
            "lease_token": parent.token or NO_TOKEN,
        }
        reply = await self._submit(SPAWN, body, "", Subject(parent.job_id, parent.attempt_id))
        submit_results = msgspec.json.decode(reply.body, type=Spawned).jobs
        self._announce_ready(submit_results)
        return submit_results

    async def _submit(self, path: str, body: object, key: str | None, about: Subject | None = None) -> HttpReply:
        """A request with a key can be sent again after a lost answer; without one nobody knows what became of it."""
        give_up_at = time.monotonic() + OUTAGE_WAIT_S
        pause_s = 0.05
        while True:
            try:
                return await self._session.post(path, body, about or Subject(key=key or ""))
            except AccessRefused:
                raise
            except StoreUnavailable:
                if key is None or time.monotonic() + pause_s > give_up_at:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    # --- Claims ---------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return (await self._exchange.run((), request))[1] if request.is_answerable else []

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = LEASE_TTL_US) -> list[HeartbeatReply]:  # noqa: ARG002
        """The control plane decides how long a lease lasts."""
        return await self._exchange.renew(leases)

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        """The worker protocol tells it with a heartbeat only."""
        return await self.heartbeat(leases)

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        for n in updates:
            if n.stage is not None:
                stage_ordinal(n.claim.job.stages, n.stage)
        if not updates:
            return []
        async with self._slots:
            return await self._exchange.update_progress(updates)

    async def settle(self, finished: Sequence[Report]) -> list[SettleResult]:
        """Safe to repeat: the same report gets the first answer."""
        return (await self.exchange(finished, None))[0]

    async def exchange(
        self, finished: Sequence[Report], request: ClaimRequest | None
    ) -> tuple[list[SettleResult], list[Claim]]:
        """What ended and the next claim in one request. Who has nothing to report waits at the server for work, if it
        has a free slot: a claim for none would not hear of jobs that must begin at once."""
        if request is not None and not request.is_answerable:
            request = None
        if request is None and not finished:
            return [], []
        if request is None:
            return await self._exchange.run(finished, None)
        if finished or not request.limit or request.worker_id in self._waiting:
            verdicts, claims = await self._exchange.run(finished, request)
            if len(claims) < request.limit:
                self.claim_again(request)
            return verdicts, claims
        return [], await self._claim_waiting(request)

    async def _claim_waiting(self, request: ClaimRequest) -> list[Claim]:
        """One claim of a worker waits at the server; its other lane stays free to report."""
        self._waiting.add(request.worker_id)
        began = time.monotonic()
        try:
            _, claims = await self._exchange.run((), request, WAIT_MS)
        finally:
            self._waiting.discard(request.worker_id)
        waited_ms = (time.monotonic() - began) * 1000
        if len(claims) < request.limit and (claims or waited_ms > WAIT_MS / 2):
            # A server that does not wait (it drains) is asked again at the worker's own pace.
            self.claim_again(request)
        return claims

    # --- look and steer -------------------------------------------------------------------------------

    async def get(self, job_id: str, requester_id: str | None = None) -> JobRow:
        reply = await self._session.get(_path(job_id), requester_params(requester_id), Subject(job_id))
        return job_of(msgspec.json.decode(reply.body, type=JobReply))

    async def attempts(self, job_id: str, requester_id: str | None = None) -> list[AttemptRow]:
        reply = await self._session.get(_path(job_id, "/attempts"), requester_params(requester_id), Subject(job_id))
        documents = msgspec.json.decode(reply.body, type=dict[str, list[AttemptReply]])["attempts"]
        return [attempt_of(job_id, document) for document in documents]

    async def attempt_logs(self, job_id: str, requester_id: str | None = None) -> list[AttemptLog]:
        reply = await self._session.get(_path(job_id, "/logs"), requester_params(requester_id), Subject(job_id))
        return attempt_logs_of(reply.body)

    async def why(self, job_id: str, requester_id: str | None = None) -> Explanation:
        reply = await self._session.get(_path(job_id, "/why"), requester_params(requester_id), Subject(job_id))
        return msgspec.json.decode(reply.body, type=Explanation)

    async def search(self, query: Search) -> SearchPage:
        """Pages of the server are put together up to the limit that was asked for."""
        check_search(query)
        jobs: list[JobRow] = []
        params = requester_params(query.requester_id) | criteria_of(query)
        while True:
            limit = min(query.limit - len(jobs), PAGE_LIMIT)
            params["limit"] = str(limit)
            page = msgspec.json.decode((await self._session.get("/jobs", params)).body, type=JobPageReply)
            jobs += map(job_of, page.jobs)
            looked_far_enough = query.scan_limit is not None and len(page.jobs) < limit
            if page.cursor is None or len(jobs) >= query.limit or looked_far_enough:
                return SearchPage(jobs, page.cursor)
            params["cursor"] = page.cursor

    async def cancel(self, job_id: str, requester_id: str | None = None, *, force: bool = False) -> State:
        params = {"force": force} | requester_params(requester_id)
        reply = await self._session.post(_path(job_id, "/cancel"), params, Subject(job_id))
        state = State(msgspec.json.decode(reply.body)["state"])
        if self.wakeups is not None and (force or state is State.RUNNING):
            self.wakeups.announce([CANCEL_CHANNEL])  # A worker of this very process need not wait for its heartbeat.
        return state

    async def dead_letter(self, job_id: str, requester_id: str | None = None) -> State:
        reply = await self._session.post(_path(job_id, "/dead-letter"), requester_params(requester_id), Subject(job_id))
        return State(msgspec.json.decode(reply.body)["state"])

    async def update(self, job_id: str, changes: Changes, requester_id: str | None = None) -> JobRow:
        check_changes(changes)
        body = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not msgspec.UNSET}
        reply = await self._session.patch(_path(job_id), requester_params(requester_id) | body, Subject(job_id))
        return job_of(msgspec.json.decode(reply.body, type=JobReply))

    async def retry(self, job_id: str, requester_id: str | None = None, key: str | None = None) -> JobRow:
        headers = {} if key is None else {"Idempotency-Key": key}
        reply = await self._session.post(
            _path(job_id, "/retry"), requester_params(requester_id), Subject(job_id), headers
        )
        return job_of(msgspec.json.decode(reply.body, type=JobReply))

    async def failure_groups(self, requester_id: str | None = None, limit: int = 50) -> FailureGroups:
        return await self.operations.failure_groups(requester_id, limit)

    async def replay(self, job_id: str, requester_id: str | None = None) -> Replayed:
        """Its dependents are replayed too; the answer does not name them."""
        params = requester_params(requester_id) | {"dependents": True}
        reply = await self._session.post(_path(job_id, "/retry"), params, Subject(job_id))
        job = job_of(msgspec.json.decode(reply.body, type=JobReply))
        return Replayed(job if as_stored(job_id) == job.id else SubmitResult.of(job), [])

    async def stats(self, requester_id: str | None = None) -> StoreStats:
        document = msgspec.json.decode((await self._session.get("/stats", requester_params(requester_id))).body)
        ages = {queue: round(age_s * 1_000_000) for queue, age_s in document["oldest_age_seconds"].items()}
        return StoreStats(
            document["by_state"],
            document["by_queue"],
            document["by_type"],
            ages,
            document["per_minute"],
            document["outbox"],
            tuple(document.get("estimated", ())),
        )

    # --- operators: a key with scope admin ---------------------------------------------------------------

    async def purge(self, job_ids: Sequence[str]) -> list[str]:
        if not job_ids:
            return []
        reply = await self._session.post("/dead-letters/purge", {"job_ids": list(job_ids)}, Subject())
        return msgspec.json.decode(reply.body, type=PurgeAnswer).purged

    async def pause(self, kind: str, name: str) -> None:
        await self._session.post("/pauses", {kind: name}, Subject())

    async def resume(self, kind: str, name: str) -> None:
        """The control plane wakes the workers itself."""
        await self._session.post("/pauses/resume", {kind: name}, Subject())

    async def paused(self) -> list[tuple[str, str]]:
        reply = await self._session.get("/pauses", {})
        return [(found.kind, found.name) for found in msgspec.json.decode(reply.body, type=PausesDocument).paused]

    # --- what HTTP cannot carry -----------------------------------------------------------------------

    async def now_us(self) -> int:
        """Its clock, to the second that has begun."""
        date = (await self._session.get("/healthz", {})).headers.get("Date", "")
        try:
            return int(parsedate_to_datetime(date).timestamp()) * 1_000_000
        except ValueError:
            raise EuterpeError("the control plane's answer has no date: a proxy removes it") from None

    async def depths(self) -> list[QueueDepth]:
        self.refuse("count the jobs of all requesters")

    async def peek(self, queues: Sequence[str], limit: int) -> list[JobRow]:  # noqa: ARG002
        self.refuse("show what a worker would claim next")

    async def unknown_types(self, queues: Sequence[str], types: Sequence[str]) -> dict[str, int]:  # noqa: ARG002
        self.refuse("tell which types wait for a worker")


class Spawned(msgspec.Struct, frozen=True):
    """What spawning is answered."""

    jobs: list[SubmitResult]


class RemoteSweeps:
    """The control plane sweeps; a worker over HTTP only tells what it holds."""

    def __init__(self, exchange: RemoteExchange) -> None:
        self.retention = KEEP
        self._exchange = exchange

    async def promote(self) -> list[str]:
        return []

    async def recover(self, turns: HeartbeatTurns | None = None) -> Swept:  # noqa: ARG002  # the control plane's matter
        return Swept([], 0, 0, 0, 0, 0)

    async def release_unbegun(self, worker_id: str, begun: Collection[tuple[str, int]]) -> int:
        """How many is the control plane's own matter: 0."""
        await self._exchange.report_held(worker_id, begun)
        return 0

    async def urgent(self) -> Swept:
        return await self.recover()

    async def work_operations(self) -> BulkProgress:
        return BulkProgress()

    async def next_due_in_us(self) -> int | None:
        return None

    async def overdue_us(self) -> int:
        return 0

    async def tidy(self, chore: Chore, limit: int) -> int:  # noqa: ARG002  # the control plane's matter
        return 0


def _path(job_id: str, action: str = "") -> str:
    """Text that can be no id stays out of a path."""
    stored_id = as_stored(job_id)
    if stored_id is None:
        raise JobNotFound(job_id)
    return f"/jobs/{stored_id}{action}"


def _batch(unit: Unit) -> dict[str, Any]:
    """Jobs of a unit depend on each other by their draft ids, which serve as names here; the server gives new ids."""
    inside = {draft.id for draft in unit.drafts}
    jobs = []
    for draft in unit.drafts:
        body = body_of(draft.submission) | {"ref": draft.id}
        if draft.submission.depends_on:
            body["depends_on"] = [f"#{d}" if d in inside else d for d in draft.submission.depends_on]
        jobs.append(body)
    return {"jobs": jobs} if unit.key is None else {"jobs": jobs, "idempotency_key": unit.key}
