"""What can be done to a store: each act prepares what it needs, and is then done once, under refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.claims.presence import Presence, WorkerFacts
from euterpe.model.events.outbox import Delivery
from euterpe.model.failures.failure import Category
from euterpe.model.job import Lease
from euterpe.model.state import State
from euterpe.model.submitting.batch import drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.stores.sql.store import SqlStore
from tests.conformance import acts
from tests.conformance.acts import CALLBACK, DAY, HOUR, MINUTE, job, submit, take, taken
from tests.conformance.clock import FrozenClock
from tests.sql_stores import report_of, shown, worker_protocol

SEVERAL: Final = frozenset({"prunes"})
"""Acts of several transactions: what an earlier one did, stays."""
GOES_AROUND_LOCKS: Final = frozenset(
    {
        "claims",
        "claims_a_plain_job",
        "settles_and_claims",
        "completes",
        "fails_for_now",
        "fails_for_good",
        "releases",
        "ends_as_cancelled",
        "claims_over_http",
        "completes_over_http",
    }
)
"""Acts of the exchange: a turn takes another way when somebody holds a row."""
ASK: Final = ClaimRequest(worker_id="w1", limit=10)
STAGES: Final = ("claimed", "fetching", "uploading")


@dataclass(frozen=True, slots=True)
class Scene:
    store: SqlStore
    clock: FrozenClock


Prepare = Callable[[Scene], Awaitable[Any]]
Do = Callable[[SqlStore, Any], Awaitable[Any]]
ACTS: Final[dict[str, tuple[Prepare, Do]]] = {}


def act(prepare: Prepare) -> Callable[[Do], Do]:
    def note(do: Do) -> Do:
        ACTS[do.__name__] = (prepare, do)
        return do

    return note


async def nothing(_: Scene) -> None:
    return None


async def running(scene: Scene) -> Any:
    """A job with everything: a callback, a key, a dependent and one that is parked behind it."""
    shared: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
    claim = await taken(scene.store, callback_url=CALLBACK, **shared)
    await submit(scene.store, "dependent", depends_on=(claim.job.id,), callback_url=CALLBACK)
    await submit(scene.store, "parked", **shared)
    await take(scene.store, types=("parked",))
    return claim


async def plain(scene: Scene) -> Any:
    return await taken(scene.store)


@act(nothing)
async def submits_one(store: SqlStore, _: None) -> None:
    await store.submit(job())


@act(nothing)
async def submits_a_batch_of_one_kind(store: SqlStore, _: None) -> None:
    await store.submit_many([job(payload=b"1"), job(payload=b"2")])


@act(nothing)
async def submits_a_mixed_batch(store: SqlStore, _: None) -> None:
    await store.submit_many([job("a"), job("b", tags={"colour": "red"}), job("c", delay_us=MINUTE)])


@act(nothing)
async def submits_with_a_key(store: SqlStore, _: None) -> None:
    await store.submit(job(idempotency_key="k"))


@act(nothing)
async def submits_a_graph(store: SqlStore, _: None) -> None:
    first, second = drafts_of([job("first"), job("second")])
    third = drafts_of([job("third", depends_on=(first.id, second.id), callback_url=CALLBACK)])
    await store.submit_graph([first, second, *third], key="graph")


@act(running)
async def spawns(store: SqlStore, claim: Any) -> None:
    await store.spawn(Lease(claim.job.id, claim.job.claim_version, 0), [job("child")])


@act(lambda scene: submit(scene.store, callback_url=CALLBACK, concurrency_key="k", concurrency_limit=1))
async def claims(store: SqlStore, _: str) -> None:
    assert len(await store.claim(ASK)) == 1


@act(lambda scene: submit(scene.store))
async def claims_a_plain_job(store: SqlStore, _: str) -> None:
    assert len(await store.claim(ASK)) == 1


@act(plain)
async def settles_and_claims(store: SqlStore, claim: Any) -> None:
    verdicts, _ = await store.exchange([Report(claim, Success(b"1"))], ASK)
    assert verdicts[0].accepted


@act(running)
async def completes(store: SqlStore, claim: Any) -> None:
    assert (await acts.complete(store, claim)).state is State.COMPLETED


@act(running)
async def fails_for_now(store: SqlStore, claim: Any) -> None:
    assert (await acts.fail(store, claim)).state is State.RETRYING


@act(running)
async def fails_for_good(store: SqlStore, claim: Any) -> None:
    assert (await acts.fail(store, claim, Category.PERMANENT)).state is State.FAILED


@act(running)
async def releases(store: SqlStore, claim: Any) -> None:
    assert (await acts.release(store, claim)).state is State.SCHEDULED


@act(running)
async def ends_as_cancelled(store: SqlStore, claim: Any) -> None:
    assert (await acts.stop(store, claim)).state is State.CANCELLED


@act(running)
async def beats(store: SqlStore, claim: Any) -> None:
    assert (await store.heartbeat([claim.lease]))[0].alive


@act(lambda scene: taken(scene.store, stages=STAGES, callback_url=CALLBACK))
async def advances(store: SqlStore, claim: Any) -> None:
    assert await store.update_progress([ProgressUpdate(claim, "fetching", 40.0, "on its way", b"1")]) == [True]


@act(lambda scene: submit(scene.store, callback_url=CALLBACK))
async def cancels_a_waiting_job(store: SqlStore, job_id: str) -> None:
    assert await store.cancel(job_id) is State.CANCELLED


@act(running)
async def asks_a_running_job_to_stop(store: SqlStore, claim: Any) -> None:
    await store.cancel(claim.job.id)


@act(running)
async def cancels_by_force(store: SqlStore, claim: Any) -> None:
    assert await store.cancel(claim.job.id, force=True) is State.CANCELLED


@act(lambda scene: acts.submit_in(scene.store, State.FAILED, callback_url=CALLBACK))
async def retries(store: SqlStore, failed: Any) -> None:
    assert (await store.retry(failed.id)).state is State.SCHEDULED


@act(lambda scene: acts.submit_in(scene.store, State.FAILED, callback_url=CALLBACK))
async def buries(store: SqlStore, failed: Any) -> None:
    assert await store.dead_letter(failed.id) is State.DEAD_LETTER


@act(nothing)
async def registers_workers(store: SqlStore, _: None) -> None:
    await store.workers.register([Presence(worker_id=name, facts=WorkerFacts(queues=("q",))) for name in ("a", "b")])


@act(lambda scene: registers_workers(scene.store, None))
async def unregisters_a_worker(store: SqlStore, _: None) -> None:
    await store.workers.unregister("a")


@act(nothing)
async def pauses(store: SqlStore, _: None) -> None:
    await store.pause("queue", "default")


async def due(scene: Scene) -> None:
    await submit(scene.store, delay_us=MINUTE, callback_url=CALLBACK)
    scene.clock.advance(hours=1)


@act(due)
async def promotes(store: SqlStore, _: None) -> None:
    assert await store.sweeps.promote() == ["default"]


async def lost(scene: Scene) -> None:
    await running(scene)
    scene.clock.advance(hours=1)


@act(lost)
async def reclaims(store: SqlStore, _: None) -> None:
    assert await store.sweeps.reclaim() == 1


async def over_age(scene: Scene) -> None:
    blocker = await submit(scene.store, "blocker", lifetime_us=HOUR, callback_url=CALLBACK)
    await submit(scene.store, "dependent", depends_on=(blocker,), callback_url=CALLBACK)
    scene.clock.advance(hours=2)


@act(over_age)
async def ends_lifetimes(store: SqlStore, _: None) -> None:
    assert await store.sweeps.end_lifetimes() >= 1


async def ended(scene: Scene) -> None:
    await acts.complete(scene.store, await running(scene))
    await scene.store.submit(Submission(type="keyed", idempotency_key="k"))
    scene.clock.advance(days=60)


@act(ended)
async def prunes(store: SqlStore, _: None) -> None:
    await store.sweeps.prune()


async def event(scene: Scene) -> Any:
    await acts.complete(scene.store, await taken(scene.store, callback_url=CALLBACK))


async def claimed_event(scene: Scene) -> Any:
    await event(scene)
    (found,) = await scene.store.outbox.claim("d1", 10)
    return found


def delivered(found: Any, state: str = "completed") -> Delivery:
    return Delivery(
        event_id=found.id, claim_version=found.claim_version, state=state, outcome="delivered", http_status=200
    )


@act(event)
async def claims_events(store: SqlStore, _: None) -> None:
    assert len(await store.outbox.claim("d1", 10)) == 1


@act(claimed_event)
async def settles_an_event(store: SqlStore, found: Any) -> None:
    assert await store.outbox.settle([delivered(found)]) == {found.id}


@act(claimed_event)
async def beats_for_an_event(store: SqlStore, found: Any) -> None:
    assert await store.outbox.heartbeat([(found.id, found.claim_version)]) == {found.id}


async def dead_event(scene: Scene) -> Any:
    found = await claimed_event(scene)
    await scene.store.outbox.settle([delivered(found, "dead_letter")])
    return found


@act(dead_event)
async def redelivers(store: SqlStore, found: Any) -> None:
    assert (await store.outbox.redeliver(found.id)).state == "scheduled"


async def lost_event(scene: Scene) -> None:
    await claimed_event(scene)
    scene.clock.advance(us=DAY)


@act(lost_event)
async def reclaims_events(store: SqlStore, _: None) -> None:
    assert await store.sweeps.reclaim_events() == 1


async def of_http_worker(scene: Scene) -> Any:
    await submit(scene.store, callback_url=CALLBACK)
    (claim,) = await worker_protocol(scene.store.engine, Random(1)).claim_for(ASK, ["w1"])
    return claim


async def beside_an_http_worker(scene: Scene) -> None:
    """The secret of lease tokens is there: the first claim of all makes it, in a transaction of its own."""
    await of_http_worker(scene)
    await submit(scene.store, callback_url=CALLBACK)


@act(beside_an_http_worker)
async def claims_over_http(store: SqlStore, _: None) -> None:
    # Another seed than that of the claim before: a lost claim is looked for by its number.
    assert len(await worker_protocol(store.engine, Random(2)).claim_for(ASK, ["w1"])) == 1


@act(of_http_worker)
async def beats_over_http(store: SqlStore, claim: Any) -> None:
    assert (await worker_protocol(store.engine, Random(1)).renew_leases([shown(claim)], MINUTE))[0] is not None


@act(of_http_worker)
async def completes_over_http(store: SqlStore, claim: Any) -> None:
    (reply,) = await worker_protocol(store.engine, Random(1)).finish([report_of(claim, Success(b"1"))])
    assert reply.state is State.COMPLETED


@act(nothing)
async def creates_a_key(store: SqlStore, _: None) -> None:
    await ApiKeys(store.engine).create_key("vesta", ["submit"])
