"""The parts that child processes play. Each notes what the store acknowledged, and nothing else."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report, SettleResult
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.dependency import Dependency
from euterpe.model.errors import IdempotencyConflict, IllegalTransition, StaleLease, StoreUnavailable
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import Claim
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore
from tests.faults.crew import Line
from tests.faults.stores import engine_of, opened

T = TypeVar("T")

AT_ONCE: Final = RetryPolicy(Backoff(Strategy.CONSTANT, initial_us=1000, jitter=0.0))
"""A retry that is due as soon as a sweep looks, so that no test waits for a backoff."""
LONG_US: Final = 600_000_000


async def claimer(line: Line, url: str, batch: int, number: int) -> None:
    """Claims until nothing is left and keeps everything."""
    async with opened(url) as store:
        line.report("ready")
        await line.order()
        taken = 0
        while claims := await take(line, store, f"claimer:{number}", batch):
            taken += len(claims)
    line.report(taken)  # behind the end of its store, which puts what it holds onto its rows


async def dispatcher(line: Line, url: str, batch: int, number: int) -> None:
    """Claims outbox events until none is due, in the order in which it gets them."""
    async with opened(url) as store:
        line.report("ready")
        await line.order()
        taken: list[tuple[str, int, str, int]] = []
        while events := await store.outbox.claim(f"dispatcher:{number}", batch, LONG_US):
            taken += [(e.id, e.claim_version, e.job_id, e.sequence) for e in events]
        line.report(taken)


async def holder(line: Line, url: str, limit: int, lease_ttl_us: int) -> None:
    """Claims and keeps its leases alive; at the first order it falls quiet, at the second it writes what it can."""
    async with opened(url) as store:
        claims = await take(line, store, "holder:1", limit, lease_ttl_us)
        line.report(claims)
        while not line.ordered():
            await store.heartbeat([claim.lease for claim in claims], lease_ttl_us)
            await asyncio.sleep(lease_ttl_us / 3e6)
        await line.order()
        line.report("quiet")
        await line.order()
        line.report(await write_late(line, store, claims))


async def write_late(line: Line, store: SqlStore, claims: Sequence[Claim]) -> dict[str, list[bool]]:
    """Every write a claim allows; what each of them was answered."""
    beats = await store.heartbeat([claim.lease for claim in claims])
    advanced = await store.update_progress([ProgressUpdate(claim, progress=99.0, message="late") for claim in claims])
    spawned = []
    for claim in claims:
        try:
            await store.spawn(claim.lease, [Submission(type="child")])
            spawned.append(True)
        except StaleLease:
            spawned.append(False)
    verdicts = await finish(line, store, [Report(claim, Success(b'"late"')) for claim in claims])
    return {
        "heartbeat": [beat.alive for beat in beats],
        "advance": advanced,
        "spawn": spawned,
        "settle": [verdict.accepted for verdict in verdicts],
    }


async def sweeper(line: Line, url: str, interval_s: float) -> None:
    """Sweeps at an interval until it is told to stop."""
    async with opened(url) as store:
        line.report("ready")
        while not line.ordered():
            await patiently(store.sweeps.urgent)
            await asyncio.sleep(interval_s)


async def sweeper_once(line: Line, url: str, number: int) -> None:
    """One pass of every sweep, at the same moment as the others'."""
    async with opened(url) as store:
        line.report("ready")
        await line.order()
        swept = await store.sweeps.urgent()
        pruned = await store.sweeps.prune()
        line.report((swept, pruned))


async def key_submitter(line: Line, url: str, key: str, payload: bytes, count: int, number: int) -> None:
    """Submits one key many times at once; reports each answer, as sent over the wire."""
    async with opened(url) as store:
        line.report("ready")
        await line.order()
        request = Submission(type="once", payload=payload, idempotency_key=key)
        answers = await asyncio.gather(*(store.submit(request) for _ in range(count)), return_exceptions=True)
        said: list[tuple[str, bytes, bool]] = []
        for answer in answers:
            if isinstance(answer, IdempotencyConflict):
                said.append(("conflict", answer.job_id.encode(), False))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                said.append(("stored", answer.response, answer.replayed))
        line.report(said)


async def migrator(line: Line, url: str, number: int) -> None:
    line.report("ready")
    await line.order()
    line.report(await engine_of(url).migrate())


async def key_worker(line: Line, url: str, number: int) -> None:
    """Runs jobs of one concurrency key; reports when it surely held which job."""
    held: list[tuple[float, float]] = []
    async with opened(url) as store:
        line.report("ready")
        await line.order()
        idle = 0
        while idle < 50:
            claims = await take(line, store, f"key_worker:{number}", 3)
            idle = 0 if claims else idle + 1
            since = time.monotonic()
            await asyncio.sleep(random.uniform(0.001, 0.01))
            for claim in claims:
                held.append((since, time.monotonic()))
                await finish(line, store, [Report(claim, Success())])
        line.report(held)


async def submitter(line: Line, url: str, seed: int) -> None:
    """Submits all kinds of jobs until it is told to stop; a key is used again after an error, never given up."""
    rng = random.Random(seed)
    recent: list[str] = []
    async with opened(url) as store:
        number = 0
        while not line.ordered():
            number += 1
            request = some_submission(rng, recent, key=f"{seed}-{number}")
            submitted = await patiently(lambda request=request: store.submit(request))  # type: ignore[misc]
            line.note("submitted", job_id=submitted.job_id, key=request.idempotency_key)
            recent = [*recent[-9:], submitted.job_id]


def some_submission(rng: random.Random, recent: Sequence[str], key: str) -> Submission:
    tenant = rng.choice((None, None, "a", "b"))
    return Submission(
        type="mixed",
        payload=b'{"x": 1}',
        priority=rng.randint(0, 4),
        max_attempts=rng.randint(1, 3),
        retry=AT_ONCE,
        delay_us=rng.choice((0, 0, 0, 20_000)),
        idempotency_key=key if rng.random() < 0.5 else None,
        depends_on=tuple(rng.sample(recent, k=min(len(recent), rng.choice((0, 0, 1, 2))))),
        dependency=rng.choice((Dependency.AFTER, Dependency.AFTER_ANY, Dependency.CHAIN, Dependency.FAN_IN)),
        concurrency_key=tenant,
        concurrency_limit=2 if tenant else None,
        callback_url="http://receiver.invalid/" if rng.random() < 0.5 else None,
    )


async def worker(line: Line, url: str, lease_ttl_us: int, seed: int) -> None:
    """Claims and ends jobs in every way until it is told to stop."""
    rng = random.Random(seed)
    async with opened(url) as store:
        while not line.ordered():
            claims = await patiently(lambda: take(line, store, f"worker:{seed}", rng.randint(1, 8), lease_ttl_us))
            if not claims:
                await asyncio.sleep(0.005)
                continue
            if rng.random() < 0.3:
                await patiently(lambda claims=claims: _spawn(line, store, claims[0]))  # type: ignore[misc]
            finished = [Report(claim, some_outcome(rng)) for claim in claims]
            # Again after an error: a settle whose answer was lost is accepted a second time.
            await patiently(lambda finished=finished: finish(line, store, finished))  # type: ignore[misc]


async def _spawn(line: Line, store: SqlStore, claim: Claim) -> None:
    try:
        for submitted in await store.spawn(claim.lease, [Submission(type="mixed", max_attempts=1) for _ in range(2)]):
            line.note("submitted", job_id=submitted.job_id)
    except StaleLease:
        line.note("refused", job_id=claim.job.id, version=claim.lease.claim_version)


async def operator(line: Line, url: str, seed: int) -> None:
    """Cancels jobs, gently or by force, and sends failed ones to the dead letter."""
    rng = random.Random(seed)
    async with opened(url) as store:
        while not line.ordered():
            page = await patiently(lambda: store.search(Search(limit=50)))
            for job in rng.sample(page.jobs, k=min(3, len(page.jobs))):
                try:
                    if job.state is State.FAILED:
                        await store.dead_letter(job.id)
                        line.note("buried", job_id=job.id)
                    elif (await store.cancel(job.id, force=rng.random() < 0.5)) is State.CANCELLED:
                        line.note("cancelled", job_id=job.id)
                except (IllegalTransition, StoreUnavailable):
                    continue
            await asyncio.sleep(0.01)


def some_outcome(rng: random.Random) -> Outcome:
    drawn = rng.random()
    if drawn < 0.7:
        return Success(b"true")
    if drawn < 0.85:
        return Failed(Failure(Category.TEMPORARY, "again"))
    return Released() if drawn < 0.95 else Failed(Failure(Category.PERMANENT, "never"))


async def writer(line: Line, url: str, for_s: float, number: int) -> None:
    """Submits, claims and settles one job after the other; reports how many writes and the longest wait."""
    waits: list[float] = []

    async def timed(write: Awaitable[T]) -> T:
        started = time.monotonic()
        answer = await write
        waits.append(time.monotonic() - started)
        return answer

    async with opened(url) as store:
        line.report("ready")
        await line.order()
        ends_at = time.monotonic() + for_s
        while time.monotonic() < ends_at:
            submitted = await timed(store.submit(Submission(type="mixed", callback_url="http://receiver.invalid/")))
            line.note("submitted", job_id=submitted.job_id)
            claims = await timed(take(line, store, f"writer:{number}", 1))
            await timed(finish(line, store, [Report(claim, Success(b"1")) for claim in claims]))
        line.report(waits)


async def patiently(write: Callable[[], Awaitable[T]], within_s: float = 30.0) -> T:
    """Again and again while the database is away, as a worker does."""
    ends_at = time.monotonic() + within_s
    while True:
        try:
            return await write()
        except StoreUnavailable:
            if time.monotonic() > ends_at:
                raise
            await asyncio.sleep(0.02)


async def take(line: Line, store: SqlStore, worker_id: str, limit: int, ttl_us: int = LONG_US) -> list[Claim]:
    """A claim, noted."""
    claims = await store.claim(ClaimRequest(worker_id=worker_id, limit=limit, lease_ttl_us=ttl_us))
    for claim in claims:
        line.note("claimed", job_id=claim.job.id, version=claim.lease.claim_version)
    return claims


async def finish(line: Line, store: SqlStore, finished: Sequence[Report]) -> list[SettleResult]:
    """A settle, noted."""
    verdicts = await store.settle(finished)
    for f, verdict in zip(finished, verdicts, strict=True):
        said = {"job_id": f.claim.job.id, "version": f.claim.lease.claim_version}
        if verdict.accepted:
            line.note("settled", **said, state=verdict.state)
        else:
            line.note("bounced", **said, outcome=outcome_name(f.outcome))
    return verdicts


def outcome_name(outcome: Outcome) -> str:
    if isinstance(outcome, Failed):
        return str(outcome.failure.category)
    return "completed" if isinstance(outcome, Success) else type(outcome).__name__.lower()
