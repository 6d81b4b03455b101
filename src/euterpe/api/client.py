"""A control plane as a store: `Queue("http://control-plane", token=...)` submits and works over plain HTTP.

Claims are taken in batches and reports are sent side by side over a few kept connections; the server gathers them.
One claim at a time waits at the server for work to come. What HTTP cannot carry raises `Unsupported`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from euterpe.api.client_session import AccessRefused, ControlPlaneSession, Subject, with_token
from euterpe.api.client_words import (
    AttemptDocument,
    Claimed,
    JobDocument,
    JobPage,
    attempt_of,
    body_of,
    claim_of,
    error_body,
    job_of,
    stored_to_wire,
)
from euterpe.model.errors import JobNotFound, StaleLease, StoreUnavailable, Unsupported
from euterpe.model.failure import Category, Failure
from euterpe.model.job import Attempt, Claim, Job, Lease
from euterpe.model.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.state import State, check_advance
from euterpe.model.submission import PAYLOAD_LIMIT, Submission, check, check_key
from euterpe.ports import LEASE_TTL_US, Advance, Beat, ClaimRequest, Finished, Verdict, Wakeups
from euterpe.store.reading import Page, Search, Stats
from euterpe.store.sweeper import Swept
from euterpe.store.units import Draft, Receipt, Unit, as_stored, drafts_of

__all__ = ["AccessRefused", "HttpStore", "with_token"]

T = TypeVar("T")

WORKER: Final = "/internal/worker"
WAIT_MS: Final = 2_000
"""How long a claim waits for work. A worker that stops waits for it to return, so it is short."""
CLAIM_LIMIT: Final = 1_000
PAGE_LIMIT: Final = 200
AT_ONCE: Final = 24
"""Reports and beats under way: some connections stay free for claims."""
PATIENCE_S: Final = 10.0
NAMELESS: Final = "lease-keeper"
JOIN: Final = "join the transaction of a connection"
SPAWN: Final = "spawn jobs from a running one"


def _cannot(what: str) -> NoReturn:
    raise Unsupported(f"a queue over HTTP cannot {what}; do it where the control plane's database is")


def _unsupported(what: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def refuse(*_: Any, **__: Any) -> NoReturn:
        _cannot(what)

    return refuse


class HttpStore:
    """The port `Claims`, and the jobs API behind the methods of a store."""

    def __init__(self, url: str, *, payload_limit: int = PAYLOAD_LIMIT) -> None:
        self.payload_limit = payload_limit
        self.sweeps = RemoteSweeps()
        self.outbox = None
        """The control plane delivers its webhooks itself."""
        self.wakeups: Wakeups | None = None
        self._session = ControlPlaneSession(url)
        self._waiting: set[str] = set()
        """Workers that have a claim waiting at the server."""
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def open(self) -> None:
        self._slots = asyncio.Semaphore(AT_ONCE)
        await self._session.open()

    async def close(self) -> None:
        await self._session.close()

    # --- submit ---------------------------------------------------------------------------------------

    async def submit(self, submission: Submission) -> Receipt:
        check(submission, self.payload_limit)
        return (await self.submit_unit(Unit(drafts_of([submission]))))[0]

    async def submit_many(self, submissions: Sequence[Submission], key: str | None = None) -> list[Receipt]:
        return await self.submit_graph(drafts_of(submissions), key)

    async def submit_graph(self, drafts: Sequence[Draft], key: str | None = None) -> list[Receipt]:
        if key is not None:
            check_key(key)
        for draft in drafts:
            check(draft.submission, self.payload_limit)
        return await self.submit_unit(Unit(tuple(drafts), key=key)) if drafts else []

    async def submit_unit(self, unit: Unit) -> list[Receipt]:
        if unit.parent is not None:
            _cannot(SPAWN)
        if len(unit.drafts) == 1 and unit.key is None:
            submission = unit.drafts[0].submission
            path, said, key = "/jobs", body_of(submission), submission.idempotency_key
        else:
            path, said, key = "/jobs/batch", _batch(unit), unit.key
        reply = await self._submit(path, said, key)
        replayed = "idempotency-replayed" in reply.headers
        answer = msgspec.json.decode(reply.body)
        receipts = [
            msgspec.structs.replace(msgspec.convert(one, Receipt), replayed=replayed)
            for one in (answer["jobs"] if path == "/jobs/batch" else [answer])
        ]
        ready = {receipt.queue for receipt in receipts if receipt.state == State.SCHEDULED and not replayed}
        if self.wakeups is not None and ready:
            self.wakeups.announce(ready)
        return receipts

    async def _submit(self, path: str, said: Any, key: str | None) -> Any:
        """A request with a key can be sent again after a lost answer; without one nobody knows what became of it."""
        give_up_at = time.monotonic() + PATIENCE_S
        pause_s = 0.05
        while True:
            try:
                return await self._session.post(path, said, Subject(key=key or ""))
            except AccessRefused:
                raise
            except StoreUnavailable:
                if key is None or time.monotonic() + pause_s > give_up_at:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    # --- Claims ---------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        if request.limit < 1 or not request.queues or request.types == ():
            return []
        return await self._claim(request, wait_ms=0)

    async def heartbeat(self, leases: Sequence[Lease], lease_ttl_us: int = LEASE_TTL_US) -> list[Beat]:  # noqa: ARG002
        """The control plane decides how long a lease lasts."""
        return await self._side_by_side(leases, self._beat)

    async def advance(self, news: Sequence[Advance]) -> list[bool]:
        for n in news:
            if n.stage is not None:
                check_advance(n.claim.job.stages, n.claim.job.current_stage, n.stage)
        return await self._side_by_side(news, self._tell)

    async def settle(self, finished: Sequence[Finished]) -> list[Verdict]:
        """Safe to repeat: the same report gets the first answer."""
        return await self._side_by_side(finished, self._report)

    async def turn(
        self, finished: Sequence[Finished], request: ClaimRequest | None
    ) -> tuple[list[Verdict], list[Claim]]:
        """Not one transaction: what was reported stays reported when the claim fails, and can be reported again."""
        verdicts = await self.settle(finished)
        if request is None or request.limit < 1 or not request.queues or request.types == ():
            return verdicts, []
        if finished or request.worker_id in self._waiting:
            return verdicts, await self._claim(request, wait_ms=0)
        return verdicts, await self._claim_waiting(request)

    async def _claim_waiting(self, request: ClaimRequest) -> list[Claim]:
        """One claim of a worker waits at the server; its other lane stays free to report."""
        self._waiting.add(request.worker_id)
        began = time.monotonic()
        try:
            claims = await self._claim(request, wait_ms=WAIT_MS)
        finally:
            self._waiting.discard(request.worker_id)
        waited_ms = (time.monotonic() - began) * 1000
        if not claims and self.wakeups is not None and waited_ms > WAIT_MS / 2:
            # It goes on waiting. A server that does not wait (it drains) is asked at the worker's own pace.
            self.wakeups.announce(request.queues)
        return claims

    async def _claim(self, request: ClaimRequest, wait_ms: int) -> list[Claim]:
        said: dict[str, Any] = {
            "worker_id": request.worker_id,
            "streams": request.queues,
            "max_jobs": min(request.limit, CLAIM_LIMIT),
            "max_wait_ms": wait_ms,
        }
        if request.types is not None:
            said["types"] = request.types
        reply = await self._session.post(f"{WORKER}/claim", said, answer_s=30.0 + wait_ms / 1000)
        answer = msgspec.json.decode(reply.body, type=Claimed)
        return [claim_of(job, request.worker_id) for job in answer.jobs]

    async def _beat(self, lease: Lease) -> Beat:
        said = {"worker_id": NAMELESS, "job_id": lease.job_id, "lease_token": lease.token or "none"}
        said["attempt_id"] = lease.attempt_id
        try:
            reply = await self._post_of(lease, "heartbeat", said)
        except StaleLease:
            return Beat(lease, alive=False)
        answer = msgspec.json.decode(reply.body)
        return Beat(lease, alive=True, cancel_requested=answer.get("cancel_requested", False))

    async def _tell(self, news: Advance) -> bool:
        said = _lease_fields(news.claim)
        if news.stage is not None:
            said["stage"] = news.stage
        if news.progress is not None or news.message is not None:
            said["progress"] = {"percent": news.progress or 0.0, "message": news.message}
        if news.checkpoint is not None:
            form = "json" if news.checkpoint[:1] == b"j" else "bytes"
            said["checkpoint"] = stored_to_wire(news.checkpoint[1:], form)
            said["checkpoint_format"] = form
        try:
            await self._post_of(news.claim.lease, "heartbeat", said)
        except StaleLease:
            return False
        return True

    async def _report(self, finished: Finished) -> Verdict:
        claim, outcome = finished.claim, finished.outcome
        said = _lease_fields(claim)
        said["stream"], said["message_id"] = claim.job.queue, claim.lease.attempt_id
        try:
            if isinstance(outcome, Success):
                said["result"] = msgspec.Raw(outcome.result or b"null")
                await self._post_of(claim.lease, "complete", said)
                return Verdict(True, State.COMPLETED)
            said.update(_failure_fields(outcome))
            reply = await self._post_of(claim.lease, "fail", said)
        except StaleLease:
            return Verdict(False)
        return Verdict(True, _state_after(outcome, msgspec.json.decode(reply.body)))

    async def _post_of(self, lease: Lease, route: str, said: Any) -> Any:
        async with self._slots:
            return await self._session.post(f"{WORKER}/{route}", said, Subject(lease.job_id, lease.attempt_id))

    async def _side_by_side(self, asks: Sequence[Any], send: Callable[[Any], Awaitable[T]]) -> list[T]:
        """Every one is sent, whatever becomes of the others; then the first error is raised."""
        if len(asks) == 1:
            return [await send(asks[0])]
        answers = await asyncio.gather(*map(send, asks), return_exceptions=True)
        good: list[T] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            good.append(answer)
        return good

    # --- look and steer -------------------------------------------------------------------------------

    async def get(self, job_id: str, requester_id: str | None = None) -> Job:
        reply = await self._session.get(_path(job_id), _whose(requester_id), Subject(job_id))
        return job_of(msgspec.json.decode(reply.body, type=JobDocument))

    async def attempts(self, job_id: str, requester_id: str | None = None) -> list[Attempt]:
        reply = await self._session.get(_path(job_id, "/attempts"), _whose(requester_id), Subject(job_id))
        documents = msgspec.json.decode(reply.body, type=dict[str, list[AttemptDocument]])["attempts"]
        return [attempt_of(job_id, document) for document in documents]

    async def search(self, query: Search) -> Page:
        """Pages of the server are put together up to the limit that was asked for."""
        jobs: list[Job] = []
        params = _whose(query.requester_id)
        for name in ("state", "type", "queue", "cursor"):
            if (value := getattr(query, name)) is not None:
                params[name] = str(value)
        if query.tag is not None:
            params["tag"] = ":".join(query.tag)
        while True:
            params["limit"] = str(min(query.limit - len(jobs), PAGE_LIMIT))
            page = msgspec.json.decode((await self._session.get("/jobs", params)).body, type=JobPage)
            jobs += map(job_of, page.jobs)
            if page.cursor is None or len(jobs) >= query.limit:
                return Page(jobs, page.cursor)
            params["cursor"] = page.cursor

    async def cancel(self, job_id: str, *, force: bool = False) -> State:
        reply = await self._session.post(_path(job_id, "/cancel"), {"force": force}, Subject(job_id))
        return State(msgspec.json.decode(reply.body)["state"])

    async def retry(self, job_id: str) -> Job:
        reply = await self._session.post(_path(job_id, "/retry"), {}, Subject(job_id))
        return job_of(msgspec.json.decode(reply.body, type=JobDocument))

    async def stats(self, requester_id: str | None = None) -> Stats:
        said = msgspec.json.decode((await self._session.get("/stats", _whose(requester_id))).body)
        ages = {queue: round(age_s * 1_000_000) for queue, age_s in said["oldest_age_seconds"].items()}
        return Stats(said["by_state"], said["by_queue"], said["by_type"], ages, said["per_minute"], said["outbox"])

    # --- what HTTP cannot carry -----------------------------------------------------------------------

    def submit_unit_on_sync(self, *_: Any) -> NoReturn:
        _cannot(JOIN)

    submit_unit_on = _unsupported(JOIN)
    spawn = _unsupported(SPAWN)
    bury = _unsupported("bury a job")
    pause = _unsupported("pause a queue or a type")
    resume = _unsupported("resume a queue or a type")
    paused = _unsupported("tell what is paused")
    depths = _unsupported("tell the depths of all queues; stats() counts your own jobs")
    unknown_types = _unsupported("tell which types wait for a worker")


class RemoteSweeps:
    """The control plane sweeps; a worker over HTTP has nothing to do."""

    async def promote(self) -> list[str]:
        return []

    async def recover(self) -> Swept:
        return Swept([], 0, 0, 0, 0, 0)

    async def next_due_in_us(self) -> int | None:
        return None

    async def prune(self) -> int:
        return 0

    async def expire_keys(self) -> int:
        return 0


def _path(job_id: str, action: str = "") -> str:
    """Text that can be no id stays out of a path."""
    stored_id = as_stored(job_id)
    if stored_id is None:
        raise JobNotFound(job_id)
    return f"/jobs/{stored_id}{action}"


def _whose(requester_id: str | None) -> dict[str, str]:
    return {} if requester_id is None else {"requester": requester_id}


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


def _lease_fields(claim: Claim) -> dict[str, Any]:
    lease = claim.lease
    return {
        "worker_id": claim.job.worker_id or NAMELESS,
        "job_id": lease.job_id,
        "attempt_id": lease.attempt_id,
        "lease_token": lease.token or "none",
    }


def _failure_fields(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Released():
            return {"released": True}
        case Cancelled(reason):
            return {"error": error_body(Failure(Category.CANCELLED, reason, code="cancelled"))}
        case Failed(failure):
            return {"error": error_body(failure)}
        case _:
            raise TypeError(f"{outcome!r} is no failure")


def _state_after(outcome: Outcome, answer: dict[str, Any]) -> State:
    """What a job became, as far as the answer to `fail` tells."""
    if answer.get("dlq"):
        return State.DEAD_LETTER
    if answer.get("requeued"):
        return State.SCHEDULED if isinstance(outcome, Released) else State.RETRYING
    cancelled = isinstance(outcome, Cancelled) or (
        isinstance(outcome, Failed) and outcome.failure.category is Category.CANCELLED
    )
    return State.CANCELLED if cancelled else State.FAILED
