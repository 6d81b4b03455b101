"""A day of the queue in miniature: every hot statement runs at least once, through the store's own methods."""

from __future__ import annotations

from euterpe.backends.dashboard import dashboard_reads
from euterpe.model.bulk import Action, BulkOrder
from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.dependency import Dependency
from euterpe.model.events.outbox import Delivery
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.views import Search
from euterpe.model.retention import Retention
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.reads.changes import changes
from euterpe.stores.sql.reads.job_states import WaitingJobs
from euterpe.stores.sql.reads.usage import usage
from euterpe.stores.sql.store import SqlStore
from tests.sql_stores import report_of, shown, worker_protocol

AT_ONCE = RetryPolicy(Backoff(Strategy.CONSTANT, initial_us=0, jitter=0.0))
CALLBACK = "http://receiver.invalid/"


async def live_a_day(store: SqlStore) -> None:
    await work_a_day(store)
    await tidy_up(store)


async def work_a_day(store: SqlStore) -> None:
    await _submit(store)
    await _work(store)
    await _work_on_a_chain(store)
    await _work_over_http(store)
    await _sweep(store)
    await _deliver(store)


async def tidy_up(store: SqlStore) -> None:
    await _search(store)
    await _act_on_many(store)
    await store.sweeps.prune(Retention(failed_us=1_800_000_000))
    await store.sweeps.expire_keys()


async def look_around(store: SqlStore) -> None:
    """What pages, metrics and the doctor look at."""
    reads = dashboard_reads(store)
    for requester in (None, "local"):
        await reads.overview(requester)
        await reads.workers(requester)
        await store.stats(requester)
    await store.depths()
    await usage(store.engine, of_jobs=True, of_keys=False)
    await store.engine.read(lambda: changes(["local"], 0, []))
    await WaitingJobs(store.engine).waiting_since(["elsewhere"], 0, 20)


async def _search(store: SqlStore) -> None:
    for limit in (1, 20, 1000):
        page = await store.search(Search(limit=limit))
        if page.cursor is not None:
            await store.search(Search(limit=limit, cursor=page.cursor))
    for state in State:
        await store.search(Search(state=state, limit=20))
    newest = await store.search(Search(state=State.COMPLETED, limit=1))
    await store.search(Search(state=State.COMPLETED, limit=20, cursor=newest.cursor))
    await store.search(Search(requester_id="local", limit=20))
    await store.search(Search(requester_id="local", state=State.COMPLETED, limit=20))
    await store.search(Search(type="t", queue="default", tag=("a", "b"), limit=20))
    hour_ago = await store.now_us() - 3_600_000_000
    for search in (
        Search(scan_limit=100, type_prefix="t", error="timeout"),
        Search(scan_limit=100, state=State.COMPLETED, tags=(("a", "b"), ("c", "d"))),
        Search(scan_limit=100, created_after=hour_ago, created_before=hour_ago + 1),
        Search(scan_limit=100, text="c0ffee00-0000-4000-8000"),
        Search(scan_limit=100, state=State.FAILED, text="order 7"),
    ):
        await store.search(search)


async def _act_on_many(store: SqlStore) -> None:
    """What has ended cannot be cancelled: the operation looks at every job, and changes none."""
    groups = (await store.failure_groups()).groups
    await store.failure_groups("local")
    for query in ("state:failed", f"fingerprint:{groups[0].fingerprint}"):
        search = parse_query(query, await store.now_us())
        await store.search(search)
        order = BulkOrder(action=Action.CANCEL, query=query, search=search, ordered_by="local")
        await store.operations.order(order)
    while (await store.sweeps.work_operations()).more:
        pass


async def _submit(store: SqlStore) -> None:
    await store.submit_many([Submission(type="t", callback_url=CALLBACK, retry=AT_ONCE) for _ in range(30)])
    plain = await store.submit(Submission(type="t", delay_us=1_000_000))
    await store.get(plain.job_id)
    parent = await store.submit(Submission(type="t", idempotency_key="once", priority=0))
    await store.submit(Submission(type="t", idempotency_key="once", priority=0))
    for kind in (Dependency.AFTER, Dependency.FAN_IN):
        waiting = await store.submit(Submission(type="t", depends_on=(parent.job_id,), dependency=kind))
    keyed = await store.submit_many(
        [Submission(type="keyed", concurrency_key="tenant", concurrency_limit=1, retry=AT_ONCE) for _ in range(5)]
    )
    for job_id in (plain.job_id, parent.job_id, waiting.job_id, keyed[-1].job_id):
        await store.why(job_id)


async def _work(store: SqlStore) -> None:
    claims = await store.claim(ClaimRequest(worker_id="w", limit=20, types=("t", "keyed")))
    for limit in (1, 1000):  # of a queue without jobs: only how they are looked for counts
        await store.claim(ClaimRequest(worker_id="w", limit=limit, queues=("empty",)))
        await store.claim(ClaimRequest(worker_id="w", limit=limit, queues=("empty", "other"), types=("t",)))
    parent = next(claim for claim in claims if claim.job.priority == 0)
    await store.heartbeat([claim.lease for claim in claims])
    await store.update_progress([ProgressUpdate(claim, progress=50.0, checkpoint=b"1") for claim in claims])
    await store.spawn(parent.lease, [Submission(type="t")])
    failure = Failed(Failure(Category.TEMPORARY, "again"))
    outcomes: dict[int, Outcome] = {0: failure, 1: Released(), 2: Failed(Failure(Category.PERMANENT, "never"))}
    finished = [
        Report(claim, Success(b"1") if claim is parent else outcomes.get(i % 7, Success(b"1")))
        for i, claim in enumerate(claims)
    ]
    await store.settle(finished)
    await store.settle(finished)
    await store.submit_many([Submission(type="keyed", concurrency_key="tenant", concurrency_limit=1)] * 2)
    keyed = await store.claim(ClaimRequest(worker_id="w", limit=20, types=("keyed",), queues=("default", "other")))
    for _ in range(2):  # The second finds nothing as its claims say, and looks.
        await store.settle([Report(claim, Success()) for claim in keyed])
    await store.submit_many([Submission(type="told", callback_url=CALLBACK, callback_events="terminal")] * 5)
    told = await store.claim(ClaimRequest(worker_id="w", limit=20, types=("told",)))
    await store.settle([Report(claim, Success()) for claim in told])
    await store.submit_many([Submission(type="far")] * 12)
    far = await store.claim(ClaimRequest(worker_id="w", limit=20, types=("far",)))
    await store.settle([Report(claim, Success()) for claim in (far[0], far[-1])])
    await store.settle([Report(claim, Success()) for claim in far[1:-1]])


async def _work_on_a_chain(store: SqlStore) -> None:
    """In a queue of its own: what a turn releases it claims."""
    asking = ClaimRequest(worker_id="w", limit=2, prefetch=2, queues=("chain",))
    first = await store.submit(Submission(type="t", queue="chain"))
    await store.submit(Submission(type="t", queue="chain", depends_on=(first.job_id,)))
    claims = await store.claim(asking)
    for _ in range(2):
        _, claims = await store.exchange([Report(claim, Success()) for claim in claims], asking)


async def _work_over_http(store: SqlStore) -> None:
    """Plain jobs in a queue of their own."""
    await store.submit_many([Submission(type="t", queue="http") for _ in range(3)])
    wire = worker_protocol(store.engine, store.rng)
    claims = await wire.claim_for(ClaimRequest(worker_id="w", limit=3, queues=("http",)), ["w", "v", "u"])
    await wire.renew_leases([shown(claim) for claim in claims], 60_000_000)
    await wire.finish([report_of(claim, Success()) for claim in claims])


async def _sweep(store: SqlStore) -> None:
    await store.claim(ClaimRequest(worker_id="w", limit=3, lease_ttl_us=1))
    await store.sweeps.urgent()
    await store.sweeps.next_due_in_us()


async def _deliver(store: SqlStore) -> None:
    events = await store.outbox.claim("d", 10)
    await store.outbox.heartbeat([(event.id, event.claim_version) for event in events])
    await store.outbox.settle(
        [
            Delivery(event_id=event.id, claim_version=event.claim_version, state="completed", outcome="delivered")
            for event in events
        ]
    )
    await store.outbox.claim("d", 1, skip=(("local", "http://receiver.invalid"),))
    await store.outbox.claim("d", 25, skip=(("local", "http://receiver.invalid"), ("local", "http://other.invalid")))
    for requester in await store.outbox.waiting_requesters():
        await store.outbox.claim("d", 1, skip=(("local", "http://other.invalid"),), requester_id=requester)
    await store.outbox.claim("d", 2, lease_ttl_us=1)
    await store.sweeps.reclaim_events()
    await store.outbox.has_waiting()
