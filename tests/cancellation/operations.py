"""Every operation of a store. Each takes a store and a number that no other call has, brings about what it needs, and
returns the call that is to be cut off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed, Released, Success
from euterpe.model.claims.presence import Presence, WorkerFacts
from euterpe.model.events.outbox import Delivery, OutboxEvent
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.reading.views import Search
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore

Call = Coroutine[Any, Any, Any]
Operation = Callable[[SqlStore, int], Awaitable[Call]]
CALLBACK = "https://receiver.example/hook"
LOT = 20
OPERATIONS: dict[str, Operation] = {}


def operation(function: Operation) -> Operation:
    OPERATIONS[function.__name__] = function
    return function


def request(n: int, limit: int = 1) -> ClaimRequest:
    return ClaimRequest(worker_id=f"w{n}", limit=limit, queues=(f"q{n}",))


async def claimed(store: SqlStore, n: int, **said: Any) -> Claim:
    await store.submit(Submission(type="t", queue=f"q{n}", **said))
    [claim] = await store.claim(request(n))
    return claim


async def event(store: SqlStore, n: int, state: str = "running") -> OutboxEvent:
    job = await store.submit(Submission(type="t", queue=f"q{n}", callback_url=CALLBACK))
    await store.cancel(job.job_id)
    events = await store.outbox.claim(f"w{n}", 100)
    mine = next(event for event in events if event.job_id == job.job_id)
    if state == "dead_letter":
        await store.outbox.settle([delivery(mine, state)])
    return mine


def delivery(of: OutboxEvent, state: str = "completed") -> Delivery:
    return Delivery(event_id=of.id, claim_version=of.claim_version, state=state, outcome=state)


# --- submitting -----------------------------------------------------------------------------------


@operation
async def submit_simple(store: SqlStore, n: int) -> Call:
    return store.submit(Submission(type="t"))


@operation
async def submit_with_a_key(store: SqlStore, n: int) -> Call:
    return store.submit(Submission(type="t", idempotency_key=f"k{n}"))


@operation
async def submit_a_dependent(store: SqlStore, n: int) -> Call:
    parent = await store.submit(Submission(type="t", callback_url=CALLBACK))
    return store.submit(Submission(type="t", depends_on=(parent.job_id,), idempotency_key=f"d{n}"))


@operation
async def submit_many_with_a_key(store: SqlStore, n: int) -> Call:
    return store.submit_many([Submission(type="t"), Submission(type="u")], key=f"m{n}")


@operation
async def submit_a_graph(store: SqlStore, n: int) -> Call:
    first, second = new_ids(2)
    return store.submit_graph(
        [Draft(first, Submission(type="t")), Draft(second, Submission(type="t", depends_on=(first,)))], key=f"g{n}"
    )


@operation
async def spawn(store: SqlStore, n: int) -> Call:
    parent = await claimed(store, n)
    return store.spawn(parent.lease, [Submission(type="child")])


# --- working --------------------------------------------------------------------------------------


@operation
async def claim(store: SqlStore, n: int) -> Call:
    await store.submit_many([Submission(type="t", queue=f"q{n}") for _ in range(3)])
    return store.claim(request(n, 3))


@operation
async def claim_with_keys_and_callbacks(store: SqlStore, n: int) -> Call:
    keyed = Submission(type="t", queue=f"q{n}", concurrency_key=f"c{n}", concurrency_limit=1, callback_url=CALLBACK)
    await store.submit_many([keyed, keyed])
    return store.claim(request(n, 3))


@operation
async def heartbeat(store: SqlStore, n: int) -> Call:
    return store.heartbeat([(await claimed(store, n)).lease])


@operation
async def advance(store: SqlStore, n: int) -> Call:
    return store.update_progress([ProgressUpdate(await claimed(store, n, stages=("claimed", "one")), stage="one")])


@operation
async def settle_a_success(store: SqlStore, n: int) -> Call:
    return store.settle([Report(await claimed(store, n), Success())])


@operation
async def settle_a_failure_with_dependents(store: SqlStore, n: int) -> Call:
    claim = await claimed(store, n, callback_url=CALLBACK, concurrency_key=f"f{n}", concurrency_limit=1)
    await store.submit(Submission(type="t", depends_on=(claim.job.id,), callback_url=CALLBACK))
    return store.settle([Report(claim, Failed(Failure(Category.PERMANENT, "no")))])


@operation
async def settle_a_release(store: SqlStore, n: int) -> Call:
    return store.settle([Report(await claimed(store, n), Released())])


@operation
async def turn(store: SqlStore, n: int) -> Call:
    claim = await claimed(store, n)
    await store.submit(Submission(type="t", queue=f"q{n}"))
    return store.exchange([Report(claim, Success())], request(n))


# --- lots, which on Postgres stand in one run of the line ---------------------------------------------------------


def lot(n: int, **said: Any) -> list[Submission]:
    return [Submission(type="t", queue=f"q{n}", **said)] * LOT


async def claimed_of_a_lot(store: SqlStore, n: int, **said: Any) -> list[Claim]:
    await store.submit_many(lot(n, **said))
    return await store.claim(request(n, 5))


@operation
async def submit_a_lot(store: SqlStore, n: int) -> Call:
    return store.submit_many(lot(n), key=f"lot{n}")


@operation
async def claim_of_a_lot(store: SqlStore, n: int) -> Call:
    await store.submit_many(lot(n))
    return store.claim(request(n, 5))


@operation
async def turn_of_a_lot(store: SqlStore, n: int) -> Call:
    reports = [Report(claim, Success()) for claim in await claimed_of_a_lot(store, n)]
    return store.exchange(reports, request(n, 5))


@operation
async def turn_of_a_lot_that_is_told(store: SqlStore, n: int) -> Call:
    claims = await claimed_of_a_lot(store, n, callback_url=CALLBACK, callback_events="terminal")
    return store.exchange([Report(claim, Success()) for claim in claims], request(n, 5))


@operation
async def failures_of_a_lot(store: SqlStore, n: int) -> Call:
    claims = await claimed_of_a_lot(store, n)
    return store.exchange([Report(c, Failed(Failure(Category.TEMPORARY, "no"))) for c in claims], request(n, 5))


@operation
async def heartbeat_of_a_lot(store: SqlStore, n: int) -> Call:
    return store.heartbeat([claim.lease for claim in await claimed_of_a_lot(store, n)])


@operation
async def cancel_in_a_lot(store: SqlStore, n: int) -> Call:
    submitted = await store.submit_many(lot(n))
    return store.cancel(submitted[7].job_id)


# --- steering -------------------------------------------------------------------------------------


@operation
async def cancel(store: SqlStore, n: int) -> Call:
    job = await store.submit(Submission(type="t", callback_url=CALLBACK))
    return store.cancel(job.job_id)


@operation
async def cancel_by_force(store: SqlStore, n: int) -> Call:
    return store.cancel((await claimed(store, n)).job.id, force=True)


@operation
async def retry(store: SqlStore, n: int) -> Call:
    claim = await claimed(store, n)
    await store.settle([Report(claim, Failed(Failure(Category.PERMANENT, "no")))])
    return store.retry(claim.job.id)


@operation
async def replay(store: SqlStore, n: int) -> Call:
    claim = await claimed(store, n)
    await store.settle([Report(claim, Success())])
    return store.retry(claim.job.id, key=f"r{n}")


@operation
async def dead_letter(store: SqlStore, n: int) -> Call:
    claim = await claimed(store, n)
    await store.settle([Report(claim, Failed(Failure(Category.PERMANENT, "no")))])
    return store.dead_letter(claim.job.id)


@operation
async def pause_and_resume(store: SqlStore, n: int) -> Call:
    async def both() -> None:
        await store.pause("queue", f"q{n}")
        await store.resume("queue", f"q{n}")

    return both()


@operation
async def register_and_unregister_a_worker(store: SqlStore, n: int) -> Call:
    async def both() -> None:
        facts = WorkerFacts(queues=(f"q{n}",))
        await store.workers.register([Presence(worker_id=f"w{n}-{i}", facts=facts) for i in range(2)])
        await store.workers.unregister(f"w{n}-0")

    return both()


# --- sweeping -------------------------------------------------------------------------------------


@operation
async def sweep(store: SqlStore, n: int) -> Call:
    await store.submit(Submission(type="t", queue=f"q{n}", delay_us=1))
    await store.submit(Submission(type="t", queue=f"p{n}", callback_url=CALLBACK))
    await store.claim(ClaimRequest(worker_id="gone", limit=1, queues=(f"p{n}",), lease_ttl_us=1))
    return store.sweeps.urgent()


@operation
async def tidy(store: SqlStore, n: int) -> Call:
    async def all_of_it() -> None:
        await store.sweeps.prune()
        await store.sweeps.expire_keys()
        await store.sweeps.next_due_in_us()

    return all_of_it()


# --- the outbox -----------------------------------------------------------------------------------


@operation
async def claim_events(store: SqlStore, n: int) -> Call:
    job = await store.submit(Submission(type="t", callback_url=CALLBACK))
    await store.cancel(job.job_id)
    return store.outbox.claim(f"w{n}", 10)


@operation
async def settle_events(store: SqlStore, n: int) -> Call:
    return store.outbox.settle([delivery(await event(store, n))])


@operation
async def heartbeat_events(store: SqlStore, n: int) -> Call:
    mine = await event(store, n)
    return store.outbox.heartbeat([(mine.id, mine.claim_version)])


@operation
async def redeliver(store: SqlStore, n: int) -> Call:
    return store.outbox.redeliver((await event(store, n, "dead_letter")).id)


# --- reading --------------------------------------------------------------------------------------


@operation
async def read(store: SqlStore, n: int) -> Call:
    job = await store.submit(Submission(type="t"))

    async def everything() -> None:
        await store.get(job.job_id)
        await store.attempts(job.job_id)
        await store.search(Search())
        await store.stats()
        await store.depths()
        await store.paused()
        await store.unknown_types(["default"], ["t"])
        await store.outbox.has_waiting()
        await store.outbox.search()

    return everything()
