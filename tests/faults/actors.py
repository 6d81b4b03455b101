"""The parts that child processes play. Each notes what the store acknowledged, and nothing else."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from euterpe.model.backoff import Backoff, Strategy
from euterpe.model.dependency import Dependency
from euterpe.model.errors import IdempotencyConflict, IllegalTransition, StaleLease, StoreUnavailable
from euterpe.model.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.outcome import Failed, Outcome, Released, Success
from euterpe.model.outcome import settle as decide
from euterpe.model.retry import RetryPolicy
from euterpe.model.state import State
from euterpe.model.submission import Submission
from euterpe.ports import Advance, ClaimRequest, Finished, Verdict
from euterpe.store import postgres
from euterpe.store.program import Program
from euterpe.store.reading import Search
from euterpe.store.settling import settle
from euterpe.store.sql import SqlStore
from euterpe.store.sqlite import ApswLibrary, ApswSession, SqliteEngine
from euterpe.store.submitting import submit_plain
from euterpe.store.units import Unit, drafts_of
from tests.faults.crew import Line
from tests.faults.stores import engine_of, opened, sqlite_path

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
        while claims := await _claim(line, store, f"claimer:{number}", batch):
            taken += len(claims)
        line.report(taken)


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
        claims = await _claim(line, store, "holder:1", limit, lease_ttl_us)
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
    advanced = await store.advance([Advance(claim, progress=99.0, message="late") for claim in claims])
    spawned = []
    for claim in claims:
        try:
            await store.spawn(claim.lease, [Submission(type="child")])
            spawned.append(True)
        except StaleLease:
            spawned.append(False)
    verdicts = await _settle(line, store, [Finished(claim, Success(b'"late"')) for claim in claims])
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


async def half_a_migration(line: Line, url: str) -> None:
    """Comes as far as the last statement before the commit, and no further."""
    engine = engine_of(url)

    def stop() -> int:
        line.report("half way")
        time.sleep(3600)
        return 0

    engine._now = stop  # type: ignore[union-attr]  # asked for the time of the ledger's row, after the DDL
    await engine.migrate()


async def freezes_inside_a_settle(line: Line, url: str, idle_limit: str) -> None:
    """Has written its settlement and is about to commit it when the whole process stands still."""
    postgres.IDLE_TRANSACTION_LIMIT = idle_limit  # type: ignore[misc]
    async with opened(url) as store:
        [claim] = await _claim(line, store, "frozen:1", 1, 100_000)

        def program() -> Program[object]:
            verdicts = yield from settle([decide(claim.job, Success(), random.Random())], "postgres")
            line.report("half way")
            line.stand_still()
            return verdicts

        try:
            line.report(await store.engine.write(program))
        except StoreUnavailable as gone:
            line.report(str(gone))


async def holds_the_write_lock(line: Line, url: str) -> None:
    """Stands still inside a write transaction in which it has already written."""
    async with opened(url) as store:
        [draft] = drafts_of([Submission(type="unfinished")])

        def program() -> Program[None]:
            yield from submit_plain([Unit((draft,))])
            line.report("holding")
            line.stand_still()

        await store.engine.write(program)


async def fills_the_disk(line: Line, url: str, limit: str) -> None:
    """Writes until nothing goes any more, tries three kinds of write, makes space, and tries again."""
    library = Watched()
    store = SqlStore(SqliteEngine(sqlite_path(url), library=library))
    await store.open()
    try:
        first = await store.submit(Submission(type="first"))
        line.note("submitted", job_id=first.job_id)
        [claim] = await _claim(line, store, "full:1", 1)
        _set_disk_limit(library, limit, tight=True)
        refused = await _submit_until_refused(line, store)
        batch = await _refusal(lambda: store.submit_many([_big("batch") for _ in range(50)]))
        settled = await _refusal(lambda: store.settle([Finished(claim, Success(b'"%s"' % (b"x" * 900_000)))]))
        _set_disk_limit(library, limit, tight=False)
        again = await store.submit(Submission(type="after"))
        line.note("submitted", job_id=again.job_id)
        [verdict] = await _settle(line, store, [Finished(claim, Success(b"1"))])
        line.report((refused, batch, settled, [again.state, verdict.accepted]))
    finally:
        await store.close()


async def _submit_until_refused(line: Line, store: SqlStore) -> str:
    for _ in range(2000):
        try:
            receipt = await store.submit(_big("filler"))
            line.note("submitted", job_id=receipt.job_id)
        except StoreUnavailable as full:
            return f"{type(full).__name__}: {full}"
    return "never refused"


async def _refusal(write: Callable[[], Awaitable[object]]) -> str:
    try:
        return f"accepted: {await write()}"
    except StoreUnavailable as full:
        return f"{type(full).__name__}: {full}"


def _big(kind: str) -> Submission:
    return Submission(type=kind, payload=b'"%s"' % (b"x" * 20_000))


class Watched(ApswLibrary):
    """Lets a test reach the writer's own connection."""

    def __init__(self) -> None:
        self.sessions: list[ApswSession] = []

    def connect(self, path: str) -> ApswSession:
        self.sessions.append(super().connect(path))
        return self.sessions[-1]


def _set_disk_limit(library: Watched, limit: str, *, tight: bool) -> None:
    if limit == "pages":
        # The writer is idle between two awaited writes, so its connection is ours for a moment.
        [(pages,)] = library.sessions[0].run("PRAGMA page_count")
        library.sessions[0].run(f"PRAGMA max_page_count = {pages + 100 if tight else 1_000_000}")
        return
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000 if tight else hard, hard))


async def key_worker(line: Line, url: str, number: int) -> None:
    """Runs jobs of one concurrency key; reports when it surely held which job."""
    held: list[tuple[float, float]] = []
    async with opened(url) as store:
        line.report("ready")
        await line.order()
        idle = 0
        while idle < 50:
            claims = await _claim(line, store, f"key_worker:{number}", 3)
            idle = 0 if claims else idle + 1
            since = time.monotonic()
            await asyncio.sleep(random.uniform(0.001, 0.01))
            for claim in claims:
                held.append((since, time.monotonic()))
                await _settle(line, store, [Finished(claim, Success())])
        line.report(held)


async def skewed(line: Line, url: str, skew_s: float) -> None:
    """A process whose own clock is wrong: submits, claims and sweeps by it, and reports what it did."""
    true_time, true_time_ns = time.time, time.time_ns
    time.time = lambda: true_time() + skew_s
    time.time_ns = lambda: true_time_ns() + int(skew_s * 1e9)
    async with opened(url) as store:
        receipt = await store.submit(Submission(type="skewed"))
        later = await store.submit(Submission(type="skewed", delay_us=60_000_000))
        claims = await _claim(line, store, "skewed:1", 10, 30_000_000)
        swept = await store.sweeps.urgent()
        line.report((time.time(), receipt, later, claims, swept))


async def submitter(line: Line, url: str, seed: int) -> None:
    """Submits all kinds of jobs until it is told to stop; a key is used again after an error, never given up."""
    rng = random.Random(seed)
    recent: list[str] = []
    async with opened(url) as store:
        number = 0
        while not line.ordered():
            number += 1
            request = some_submission(rng, recent, key=f"{seed}-{number}")
            receipt = await patiently(lambda request=request: store.submit(request))  # type: ignore[misc]
            line.note("submitted", job_id=receipt.job_id, key=request.idempotency_key)
            recent = [*recent[-9:], receipt.job_id]


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
            claims = await patiently(lambda: _claim(line, store, f"worker:{seed}", rng.randint(1, 8), lease_ttl_us))
            if not claims:
                await asyncio.sleep(0.005)
                continue
            if rng.random() < 0.3:
                await patiently(lambda claims=claims: _spawn(line, store, claims[0]))  # type: ignore[misc]
            finished = [Finished(claim, some_outcome(rng)) for claim in claims]
            # Again after an error: a settle whose answer was lost is accepted a second time.
            await patiently(lambda finished=finished: _settle(line, store, finished))  # type: ignore[misc]


async def _spawn(line: Line, store: SqlStore, claim: Claim) -> None:
    try:
        for receipt in await store.spawn(claim.lease, [Submission(type="mixed", max_attempts=1) for _ in range(2)]):
            line.note("submitted", job_id=receipt.job_id)
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
                        await store.bury(job.id)
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
            receipt = await timed(store.submit(Submission(type="mixed", callback_url="http://receiver.invalid/")))
            line.note("submitted", job_id=receipt.job_id)
            claims = await timed(_claim(line, store, f"writer:{number}", 1))
            await timed(_settle(line, store, [Finished(claim, Success(b"1")) for claim in claims]))
        line.report(waits)


async def patiently(write: Callable[[], Awaitable[T]], within_s: float = 20.0) -> T:
    """Again and again while the database is away, as a worker does."""
    ends_at = time.monotonic() + within_s
    while True:
        try:
            return await write()
        except StoreUnavailable:
            if time.monotonic() > ends_at:
                raise
            await asyncio.sleep(0.02)


async def _claim(line: Line, store: SqlStore, worker_id: str, limit: int, ttl_us: int = LONG_US) -> list[Claim]:
    claims = await store.claim(ClaimRequest(worker_id=worker_id, limit=limit, lease_ttl_us=ttl_us))
    for claim in claims:
        line.note("claimed", job_id=claim.job.id, version=claim.lease.claim_version)
    return claims


async def _settle(line: Line, store: SqlStore, finished: Sequence[Finished]) -> list[Verdict]:
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
