"""Why a job waits: each reason is made for real, and the sentence about it is true."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.claims.presence import BreakerState, Presence, TrippedBreaker, WorkerFacts
from euterpe.model.dependency import Dependency
from euterpe.model.errors import JobNotFound, JobPruned
from euterpe.model.failures.failure import NOT_ITS_TURN, Category, Failure
from euterpe.model.reading.why import AHEAD_LIMIT, Explanation, Reason
from euterpe.model.retention import Retention
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import DAY, HOUR, MINUTE, complete, fail, job, submit, submit_in, take, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs


async def why(store: SqlStore, job_id: str, reason: Reason) -> Explanation:
    told = await store.why(job_id)
    assert told.reason is reason, told
    assert told.job_id == job_id
    assert told.state == (await store.get(job_id)).state
    assert told.sentence.endswith(".")
    return told


TYPES = ("work", "mine", "paused", "extract", "check", "load")


async def alive(store: SqlStore, worker_id: str = "w1", **facts: Any) -> None:
    said = WorkerFacts(**{"queues": ("default",), "types": TYPES} | facts)
    await store.workers.register([Presence(worker_id=worker_id, facts=said)])


def open_for(seconds: int) -> tuple[TrippedBreaker, ...]:
    return (TrippedBreaker("default", "work", BreakerState.OPEN, seconds * 1_000_000),)


async def test_without_a_worker_that_would_claim_it_a_job_says_what_is_missing(
    store: SqlStore, clock: FrozenClock
) -> None:
    job_id = await submit(store)
    told = await why(store, job_id, Reason.NO_WORKER)
    assert told.sentence == (
        "No worker is alive: none was heard of in the last 1m. Start one whose app declares type 'work': "
        "`euterpe worker myapp:queue --queues default`."
    )
    assert told.ahead == 0
    await alive(store, "elsewhere", queues=("other",))
    told = await why(store, job_id, Reason.NO_WORKER_ON_QUEUE)
    assert told.sentence.startswith("The one worker that is alive does not take from queue 'default'. Start one")
    await alive(store, "stops", stopping=True)
    await why(store, job_id, Reason.NO_WORKER_ON_QUEUE)
    await alive(store, "stranger", types=("play",))
    told = await why(store, job_id, Reason.NO_WORKER_FOR_TYPE)
    assert told.sentence.startswith("1 worker takes from queue 'default', and none knows type 'work'. Start one")
    await alive(store, "takes anything", types=None)
    await why(store, job_id, Reason.NEXT)
    clock.advance(minutes=2)
    await why(store, job_id, Reason.NO_WORKER)


async def test_a_worker_that_does_not_answer_is_why_a_job_waits(store: SqlStore, clock: FrozenClock) -> None:
    await submit(store)
    await alive(store, "blocked")
    (claim,) = await store.claim(ClaimRequest(worker_id="blocked", queues=("default",), limit=1))
    for _ in range(8):  # As its lease keeper does.
        clock.advance(us=MINUTE // 4)
        await store.heartbeat([claim.lease])
    job_id = await submit(store)
    told = await why(store, job_id, Reason.NO_ANSWER)
    assert told.sentence.startswith(
        "The one worker that could claim it told nothing since 2026-01-01 00:00:00 UTC, for 2m, and still keeps the"
    )
    await alive(store, "other")
    await why(store, job_id, Reason.NEXT)


async def test_a_job_that_runs_speaks_for_a_worker_that_says_nothing_of_itself(
    store: SqlStore, clock: FrozenClock
) -> None:
    await taken(store)
    alike, other = await submit(store), await submit(store, "other")
    await why(store, alike, Reason.NEXT)
    await why(store, other, Reason.NO_WORKER)


async def test_an_open_breaker_is_named_where_no_worker_may_claim(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store)
    await alive(store, "w1", breakers=open_for(50))
    await alive(store, "w2", breakers=open_for(20))
    await alive(store, "stranger", types=("play",))
    told = await why(store, job_id, Reason.BREAKER_OPEN)
    assert told.until == "2026-01-01T00:00:20.000000Z"
    assert told.sentence.startswith(
        "The circuit breaker of work in queue default is open on every worker that could claim it, until "
        "2026-01-01 00:00:20 UTC, in 20s: too many of its jobs failed."
    )
    await alive(store, "w3", breakers=(TrippedBreaker("default", "work", BreakerState.HALF_OPEN),))
    await why(store, job_id, Reason.NEXT)
    await store.workers.unregister("w3")
    await why(store, job_id, Reason.BREAKER_OPEN)
    clock.advance(us=21_000_000)
    await why(store, job_id, Reason.NEXT)


async def test_a_job_says_how_many_are_ahead_of_it_in_its_queue(store: SqlStore) -> None:
    await alive(store)
    first, second, third = [await submit(store) for _ in range(3)]
    urgent = await submit(store, priority=0)
    await submit(store, queue="other", priority=0)
    await submit(store, priority=4)
    await submit(store, priority=0, delay_us=HOUR)
    told = [await why(store, job_id, Reason.POSITION) for job_id in (first, second, third)]
    assert [t.ahead for t in told] == [1, 2, 3]
    assert told[0].sentence == "1 job is ahead of it in queue 'default'."
    assert told[2].sentence == "3 jobs are ahead of it in queue 'default'."
    assert (await why(store, urgent, Reason.NEXT)).ahead == 0
    assert "knows type 'work'" in (await why(store, urgent, Reason.NEXT)).sentence
    assert [claim.job.id for claim in await take(store, 4)] == [urgent, first, second, third]


@needs(Capability.CONCURRENCY_KEYS)
async def test_jobs_that_a_claim_would_pass_over_are_not_ahead(store: SqlStore, clock: FrozenClock) -> None:
    await submit(store, "paused")
    await submit(store, lifetime_us=MINUTE)
    keyed = await store.submit_many([job(concurrency_key="k", concurrency_limit=1) for _ in range(2)])
    job_id = await submit(store, "mine")
    await store.pause("type", "paused")
    clock.advance(minutes=2)
    holder = await take_one(store)
    assert await take(store, 5, types=("work",)) == []
    assert holder.job.id == keyed[0].job_id
    await alive(store)
    assert (await why(store, job_id, Reason.NEXT)).ahead == 0
    await store.resume("type", "paused")
    assert (await why(store, job_id, Reason.POSITION)).ahead == 1


async def test_more_jobs_ahead_than_anybody_counts_are_told_as_that(store: SqlStore) -> None:
    await alive(store)
    await store.submit_many([job() for _ in range(AHEAD_LIMIT)])
    last, behind = await submit(store), await submit(store)
    exactly = await why(store, last, Reason.POSITION)
    assert (exactly.ahead, exactly.sentence) == (1000, "1,000 jobs are ahead of it in queue 'default'.")
    more = await why(store, behind, Reason.POSITION)
    assert (more.ahead, more.sentence) == (1001, "More than 1,000 jobs are ahead of it in queue 'default'.")


@pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("type", "work")])
async def test_a_pause_is_named_with_what_ends_it(store: SqlStore, kind: str, name: str) -> None:
    await alive(store)
    job_id = await submit(store)
    await store.pause(kind, name)
    told = await why(store, job_id, Reason.QUEUE_PAUSED if kind == "queue" else Reason.TYPE_PAUSED)
    assert f"`euterpe resume --{kind} {name}`" in told.sentence
    await store.resume(kind, name)
    await why(store, job_id, Reason.NEXT)


@needs(Capability.CONCURRENCY_KEYS)
async def test_a_full_concurrency_key_names_who_holds_it(store: SqlStore, clock: FrozenClock) -> None:
    await alive(store)
    submit_results = await store.submit_many([job(concurrency_key="acme", concurrency_limit=2) for _ in range(4)])
    holders = await take(store, 2, worker_id="w7")
    for parked in (False, True):
        if parked:
            assert await take(store) == []
        told = await why(store, submit_results[3].job_id, Reason.CONCURRENCY_KEY)
        assert [b.job_id for b in told.blocked_by] == [claim.job.id for claim in holders]
        assert {b.worker_id for b in told.blocked_by} == {"w7"}
        assert told.sentence.startswith("Concurrency key 'acme' lets 2 run at once, and that many do: work ")
    await complete(store, holders[0])
    await why(store, submit_results[2].job_id, Reason.NEXT)
    await why(store, submit_results[3].job_id, Reason.PARKED)


@needs(Capability.CONCURRENCY_KEYS)
async def test_a_key_with_many_holders_counts_them_all_and_names_a_few(store: SqlStore) -> None:
    submit_results = await store.submit_many([job(concurrency_key="k", concurrency_limit=9) for _ in range(10)])
    await take(store)
    told = await why(store, submit_results[9].job_id, Reason.CONCURRENCY_KEY)
    assert len(told.blocked_by) == 3
    assert told.sentence.endswith(" and 6 more.")


@needs(Capability.DEPENDENCIES)
async def test_a_pending_job_names_what_it_waits_for(store: SqlStore) -> None:
    blocker, other = await taken(store, "extract"), await submit(store, "check", delay_us=HOUR)
    waiting = await submit(store, "load", depends_on=(blocker.job.id, other))
    told = await why(store, waiting, Reason.DEPENDENCY)
    assert {b.job_id for b in told.blocked_by} == {blocker.job.id, other}
    assert told.sentence.startswith("It waits for 2 jobs to end, among them extract ")
    await complete(store, blocker)
    told = await why(store, waiting, Reason.DEPENDENCY)
    assert told.sentence == f"It waits for check {other} to end, which is delayed."


@needs(Capability.DEPENDENCIES)
async def test_a_fan_in_names_the_children_that_are_not_done(store: SqlStore) -> None:
    parent = await taken(store, "split")
    fan_in = await submit(store, "join", depends_on=(parent.job.id,), dependency=Dependency.FAN_IN)
    (child,) = await store.spawn(parent.lease, [job("part", delay_us=HOUR)])
    await complete(store, parent)
    told = await why(store, fan_in, Reason.DEPENDENCY)
    assert [(b.job_id, b.state) for b in told.blocked_by] == [(child.job_id, "delayed")]


async def test_a_delayed_job_says_until_when(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, delay_us=90 * MINUTE)
    told = await why(store, job_id, Reason.DELAYED)
    assert told.sentence == "It is delayed until 2026-01-01 01:30:00 UTC, in 1h30m."
    assert told.until == "2026-01-01T01:30:00.000000Z"
    clock.advance(minutes=91)
    assert (await why(store, job_id, Reason.DUE)).sentence.startswith("It was due at 2026-01-01 01:30:00 UTC, 1m ago;")
    await store.sweeps.promote()
    await alive(store)
    await why(store, job_id, Reason.NEXT)


async def test_a_retrying_job_says_what_went_wrong_and_how_long_it_backs_off(store: SqlStore) -> None:
    claim = await taken(store, max_attempts=3)
    await fail(store, claim, message="no paper", code="printer")
    told = await why(store, claim.job.id, Reason.BACKOFF)
    assert told.sentence == (
        "Attempt 1 of 3 ended badly (printer: no paper); "
        "the next one waits for its backoff until 2026-01-01 00:00:01 UTC, in 1s."
    )
    assert told.until == "2026-01-01T00:00:01.000000Z"


async def test_a_job_that_no_worker_fitted_says_so(store: SqlStore) -> None:
    claim = await taken(store)
    unfit = Failed(Failure(Category.SYSTEM, "unknown field `lang`", "bad_payload", unfit=True))
    await store.settle([Report(claim, unfit)])
    told = await why(store, claim.job.id, Reason.BACKOFF)
    assert told.sentence.startswith(
        "The worker that claimed it last could not use its arguments (unknown field `lang`). It waits for a worker "
        "whose handler fits, without a charge; the next claim is at 2026-01-01 00:00:0"
    )


async def test_a_suspect_of_a_lost_worker_says_that_it_waits_for_its_turn(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    clock.advance(minutes=2)
    await store.sweeps.urgent()
    clock.advance(minutes=2)
    await store.sweeps.urgent()
    (claim,) = await take(store)
    await store.settle([Report(claim, Failed(NOT_ITS_TURN))])
    told = await why(store, claim.job.id, Reason.BACKOFF)
    assert told.sentence.startswith(
        "It is a suspect: it was running when its worker was lost. It waits for its turn to run, a few suspects at a "
        "time and at last alone, without a charge; the next claim is at "
    )


async def test_a_job_whose_lifetime_is_over_says_so(store: SqlStore, clock: FrozenClock) -> None:
    job_id = await submit(store, lifetime_us=MINUTE)
    clock.advance(minutes=2)
    await why(store, job_id, Reason.LIFETIME_OVER)


async def test_a_running_job_names_its_worker_and_a_lost_one_its_lease(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    assert (
        "attempt 1 of 3, on worker w1 since 2026-01-01 00:00:00 UTC"
        in (await why(store, claim.job.id, Reason.RUNNING)).sentence
    )
    await store.cancel(claim.job.id)
    await why(store, claim.job.id, Reason.CANCEL_REQUESTED)
    clock.advance(hours=1)
    assert "the next sweep takes the job back" in (await why(store, claim.job.id, Reason.LEASE_EXPIRED)).sentence


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.COMPLETED, "It completed at 2026-01-01 00:00:00 UTC, less than a second ago, after 1 attempt."),
        (State.FAILED, "no luck); a retry runs it again."),
        (State.DEAD_LETTER, "no luck); a retry runs it as a new job."),
        (State.CANCELLED, "It was cancelled at 2026-01-01 00:00:00 UTC"),
    ],
)
async def test_an_ended_job_says_what_became_of_it(store: SqlStore, state: State, words: str) -> None:
    ended = await submit_in(store, state)
    assert words in (await why(store, ended.id, Reason.ENDED)).sentence


@needs(Capability.DEPENDENCIES)
async def test_every_state_has_an_explanation(store: SqlStore) -> None:
    for state in State:
        found = await submit_in(store, state, str(state))
        assert (await store.why(found.id)).state == state


async def test_a_job_that_is_not_there_or_was_pruned_has_no_explanation(store: SqlStore, clock: FrozenClock) -> None:
    for unknown in ("no id", "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(JobNotFound):
            await store.why(unknown)
    claim = await taken(store)
    await fail(store, claim, Category.PERMANENT)
    clock.advance(us=2 * DAY)
    await store.sweeps.prune(Retention(failed_us=DAY))
    with pytest.raises(JobPruned):
        await store.why(claim.job.id)


@needs(Capability.ANY_REQUESTER)
async def test_a_requester_gets_no_explanation_of_anybody_elses_job(store: SqlStore) -> None:
    await alive(store)
    job_id = await submit(store, requester_id="alice")
    assert (await store.why(job_id, "alice")).reason is Reason.NEXT
    with pytest.raises(JobNotFound):
        await store.why(job_id, "bob")
