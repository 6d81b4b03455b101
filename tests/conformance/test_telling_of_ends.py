"""Every way in which a job can end without a worker's report is counted once, by queue and reason, and logged."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.dependency import Dependency
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.observe.logs import AllowList
from euterpe.observe.metrics import Metrics
from euterpe.stores.sql.store import SqlStore
from euterpe.worker.reporting.telemetry import record_settled
from tests.conformance.acts import MINUTE, complete, failure, submit, submit_in, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables
from tests.observe.scraping import moved_counters
from tests.sql_stores import report_of

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
QUEUE = "media"


@pytest.fixture
def metrics(store: SqlStore) -> Metrics:
    counted = Metrics([QUEUE])
    store.telemetry = counted
    return counted


def counts(metrics: Metrics) -> dict[str, float]:
    """What was counted, but for what every job is: produced, claimed, run, and how long it took."""
    moved = moved_counters(metrics.render()[1].decode())
    usual = ("jobs_produced", "jobs_consumed", "job_processing_duration", "claim_latency", "euterpe_attempts")
    return {name: value for name, value in moved.items() if not name.startswith(usual)}


def failed(reason: str) -> str:
    return f'jobs_failed_total{{queue="{QUEUE}",reason="{reason}"}}'


DEAD = f'jobs_dead_letter_total{{queue="{QUEUE}"}}'
RETRIED = f'jobs_retried_total{{queue="{QUEUE}"}}'
Act = Callable[[SqlStore, FrozenClock, Tables], Awaitable[object]]


async def _lost(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    await taken(store, queue=QUEUE)
    clock.advance(minutes=10)
    await store.sweeps.recover()


async def _lost_for_the_last_time(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    await taken(store, queue=QUEUE, max_attempts=1)
    clock.advance(minutes=10)
    await store.sweeps.recover()


async def _lost_after_a_cancel(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    claim = await taken(store, queue=QUEUE)
    await store.cancel(claim.job.id)
    clock.advance(minutes=10)
    await store.sweeps.recover()


async def _outlived_while_waiting(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    await submit(store, queue=QUEUE, lifetime_us=MINUTE)
    clock.advance(us=MINUTE)
    await store.sweeps.recover()


async def _outlived_while_running(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    await taken(store, queue=QUEUE, lifetime_us=10_000_000)
    clock.advance(us=10_000_000)
    await store.sweeps.recover()


async def _spent(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    await submit_in(store, State.RETRYING, queue=QUEUE)
    await tables.run("UPDATE inbox_jobs SET max_attempts = 1")
    clock.advance(minutes=1)
    await store.sweeps.recover()


async def _cancelled_while_waiting(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    job_id = await submit(store, queue=QUEUE)
    await store.cancel(job_id)
    await store.cancel(job_id)  # once more changes nothing


async def _cancelled_by_force(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    claim = await taken(store, queue=QUEUE)
    await store.cancel(claim.job.id, force=True)


async def _cancelled_with_dependents(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    first = await submit(store, queue=QUEUE)
    second = await submit(store, queue=QUEUE, depends_on=(first,))
    await submit(store, queue=QUEUE, depends_on=(second,))
    await store.cancel(first)


async def _dead_lettered_by_an_operator(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    job = await submit_in(store, State.FAILED, queue=QUEUE)
    await store.dead_letter(job.id)


async def _retried_by_an_operator(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    job = await submit_in(store, State.FAILED, queue=QUEUE)
    await store.retry(job.id)


async def _lost_with_dependents(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    claim = await taken(store, queue=QUEUE, max_attempts=1)
    await submit(store, queue=QUEUE, depends_on=(claim.job.id,))
    await submit(store, queue=QUEUE, depends_on=(claim.job.id,), dependency=Dependency.CHAIN)
    clock.advance(minutes=10)
    await store.sweeps.recover()


async def _submitted_behind_a_dead_letter(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    ended = await submit_in(store, State.DEAD_LETTER, queue="elsewhere")
    await submit(store, queue=QUEUE, depends_on=(ended.id,), idempotency_key="once")
    await submit(store, queue=QUEUE, depends_on=(ended.id,), idempotency_key="once")


async def _unreadable(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    await submit(store, queue=QUEUE, tags={"a": "b"})
    await tables.run("UPDATE inbox_jobs SET tags = '[1'")
    assert await take(store, queues=(QUEUE,)) == []


WAYS: list[tuple[Act, dict[str, float]]] = [
    (_lost, {failed("system"): 1, RETRIED: 1}),
    (_lost_for_the_last_time, {failed("system"): 1, DEAD: 1}),
    (_lost_after_a_cancel, {failed("cancelled"): 1}),
    (_outlived_while_waiting, {failed("timeout"): 1, DEAD: 1}),
    (_outlived_while_running, {failed("timeout"): 1, DEAD: 1}),
    (_spent, {failed("temporary"): 1, DEAD: 1}),
    (_cancelled_while_waiting, {failed("cancelled"): 1}),
    (_cancelled_by_force, {failed("cancelled"): 1}),
    (_cancelled_with_dependents, {failed("cancelled"): 3}),
    (_dead_lettered_by_an_operator, {DEAD: 1}),
    (_retried_by_an_operator, {RETRIED: 1}),
    (_lost_with_dependents, {failed("system"): 1, failed("permanent"): 1, failed("cancelled"): 1, DEAD: 2}),
    (_submitted_behind_a_dead_letter, {failed("permanent"): 1, DEAD: 1}),
    (_unreadable, {failed("permanent"): 1, DEAD: 1}),
]


@pytest.mark.parametrize(("act", "counted"), WAYS, ids=[act.__name__.strip("_") for act, _ in WAYS])
async def test_an_end_without_a_report_is_counted_once(
    store: SqlStore, clock: FrozenClock, tables: Tables, metrics: Metrics, act: Act, counted: dict[str, float]
) -> None:
    await act(store, clock, tables)
    assert counts(metrics) == counted
    await store.sweeps.recover()
    assert counts(metrics) == counted, "a later sweep counted it again"


async def test_of_two_sweeps_at_once_one_counts(
    subject: Opened, store: SqlStore, clock: FrozenClock, metrics: Metrics
) -> None:
    for _ in range(20):
        await taken(store, queue=QUEUE, max_attempts=1)
    clock.advance(minutes=10)
    async with subject.another() as other:
        other.telemetry = metrics
        await store.sweeps.recover()
        await other.sweeps.recover()
    assert counts(metrics) == {failed("system"): 20, DEAD: 20}


async def test_dependents_that_end_with_a_report_are_counted_beside_it(store: SqlStore, metrics: Metrics) -> None:
    claim = await taken(store, queue=QUEUE, max_attempts=1)
    dependent = await submit(store, queue=QUEUE, depends_on=(claim.job.id,))
    await submit(store, queue=QUEUE, depends_on=(dependent,))
    finished = [Report(claim, failure(Category.TEMPORARY))]
    record_settled(metrics, finished, await store.settle(finished))
    assert counts(metrics) == {failed("temporary"): 1, failed("permanent"): 2, DEAD: 3}


async def test_a_completion_counts_nobody_else(store: SqlStore, metrics: Metrics) -> None:
    claim = await taken(store, queue=QUEUE)
    await submit(store, queue=QUEUE, depends_on=(claim.job.id,))
    await complete(store, claim)
    assert counts(metrics) == {}


async def test_the_wire_counts_the_dependents_of_what_it_ends(store: SqlStore, metrics: Metrics) -> None:
    wire = store.control_plane
    job_id = await submit(store, queue=QUEUE, max_attempts=1)
    await submit(store, queue=QUEUE, depends_on=(job_id,))
    (claim,) = await wire.claim_for(ClaimRequest(worker_id="w", limit=1, queues=(QUEUE,)), ["w"])
    (reply,) = await wire.finish([report_of(claim, failure())])
    assert reply.state is State.DEAD_LETTER
    assert counts(metrics) == {failed("permanent"): 1, DEAD: 1}  # its own end is counted by the route that took it


async def test_swept_jobs_leave_lines_that_our_gate_lets_through(
    store: SqlStore, clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    retried = await taken(store, "again", queue=QUEUE)
    given_up = await taken(store, "never", queue=QUEUE, max_attempts=1)
    dependent = await submit(store, "follower", queue=QUEUE, depends_on=(given_up.job.id,))
    clock.advance(minutes=10)
    with caplog.at_level(logging.INFO, "euterpe"):
        await store.sweeps.recover()
    gate = AllowList(strict=True)
    lines = {}
    for record in caplog.records:
        assert gate.filter(record)
        fields = vars(record)["euterpe_fields"]
        lines[fields["job_id"]] = (record.levelname, fields)
    told = {job_id: (level, f["type"], f["queue"], f["state"], f["error_code"]) for job_id, (level, f) in lines.items()}
    assert told == {
        retried.job.id: ("WARNING", "again", QUEUE, "retrying", "lost_lease"),
        given_up.job.id: ("ERROR", "never", QUEUE, "dead_letter", "lost_lease"),
        dependent: ("ERROR", "follower", QUEUE, "dead_letter", "dependency_ended"),
    }


async def test_of_many_jobs_that_end_in_one_sweep_a_few_get_lines_and_the_rest_a_number(
    store: SqlStore, clock: FrozenClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.maintenance.sweeps.BATCH", 10)
    for _ in range(35):
        await taken(store, queue=QUEUE)
    clock.advance(minutes=10)
    with caplog.at_level(logging.INFO, "euterpe"):
        assert await store.sweeps.reclaim() == 35
    said = Counter(record.getMessage() for record in caplog.records)
    assert said == {
        "an attempt was ended without its worker; the job is tried again": 20,
        "15 more jobs were ended without their workers": 1,
    }
