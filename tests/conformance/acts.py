"""The few things every test does to a store: submit, take, and end an attempt in one of its ways."""

from __future__ import annotations

from typing import Any

from euterpe.model.claims.exchange import ClaimRequest, Report, SettleResult
from euterpe.model.claims.outcome import Cancelled, Failed, Outcome, Released, Success
from euterpe.model.claims.worker_reports import ShownLease, TokenReport
from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import Claim, JobRow
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Store

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

STEADY = RetryPolicy(Backoff(jitter=0.0))
"""The default backoff without jitter: 1 s, 2 s, 4 s."""

CALLBACK = "https://receiver.example/hook"


def job(type: str = "work", **said: Any) -> Submission:  # the field's own name
    with_retry: dict[str, Any] = {"retry": STEADY} | said
    return Submission(type=type, **with_retry)


async def submit(store: Store, type: str = "work", **said: Any) -> str:  # likewise
    """Store one job; returns its id."""
    return (await store.submit(job(type, **said))).job_id


async def take(store: Store, limit: int = 100, **asked: Any) -> list[Claim]:
    said: dict[str, Any] = {"worker_id": "w1", "limit": limit} | asked
    return await store.claim(ClaimRequest(**said))


async def take_one(store: Store, **asked: Any) -> Claim:
    claims = await take(store, 1, **asked)
    assert len(claims) == 1, "there was nothing to claim"
    return claims[0]


async def taken(store: Store, type: str = "work", **said: Any) -> Claim:  # likewise
    """A job that is running, alone of its type."""
    job_id = await submit(store, type, **said)
    claim = await take_one(store, types=(type,), queues=(said.get("queue", "default"),))
    assert claim.job.id == job_id
    return claim


async def end(store: Store, claim: Claim, outcome: Outcome) -> SettleResult:
    return (await store.settle([Report(claim, outcome)]))[0]


async def complete(store: Store, claim: Claim, result: bytes | None = b"null") -> SettleResult:
    return await end(store, claim, Success(result))


def failure(category: Category = Category.TEMPORARY, message: str = "no luck", **more: Any) -> Failed:
    return Failed(Failure(category, message, **more))


async def fail(store: Store, claim: Claim, category: Category = Category.TEMPORARY, **more: Any) -> SettleResult:
    return await end(store, claim, failure(category, **more))


async def release(store: Store, claim: Claim) -> SettleResult:
    return await end(store, claim, Released())


async def stop(store: Store, claim: Claim) -> SettleResult:
    """The handler ends because it was asked to."""
    return await end(store, claim, Cancelled())


def shown(claim: Claim) -> ShownLease:
    """As its worker names it over HTTP."""
    return ShownLease(claim.job.id, claim.job.claim_version, claim.job.worker_id or "", claim.lease.token or "")


def told(claim: Claim, outcome: Outcome, outcome_hash: bytes = b"said") -> TokenReport:
    """As its worker reports it over HTTP."""
    lease = shown(claim)
    return TokenReport(lease.job_id, lease.claim_version, lease.worker_id, lease.token, outcome, outcome_hash)


async def state_of(store: Store, job_id: str) -> State:
    return (await store.get(job_id)).state


async def states_of(store: Store, *job_ids: str) -> list[State]:
    return [(await store.get(job_id)).state for job_id in job_ids]


async def submit_in(store: Store, state: State, type: str = "work", **said: Any) -> JobRow:
    """A job brought into `state` by legal means, alone of its type."""
    if state is State.PENDING:
        blocker = await submit(store, f"{type}.blocker", delay_us=DAY)
        return await store.get(await submit(store, type, **(said | {"depends_on": (blocker,)})))
    if state is State.SCHEDULED:
        return await store.get(await submit(store, type, **said))
    if state is State.DELAYED:
        delay_us = min(HOUR, said.get("lifetime_us", DAY) - 1)
        return await store.get(await submit(store, type, **({"delay_us": delay_us} | said)))
    claim = await taken(store, type, **(said | ({"max_attempts": 1} if state is State.DEAD_LETTER else {})))
    match state:
        case State.COMPLETED:
            await complete(store, claim)
        case State.FAILED:
            await fail(store, claim, Category.PERMANENT)
        case State.CANCELLED:
            await stop(store, claim)
        case State.RETRYING | State.DEAD_LETTER:
            await fail(store, claim)
    found = await store.get(claim.job.id)
    assert found.state is state
    return found
