"""The scenarios of our own targets: on the tiny peer what any peer could do, on ourselves what only we can."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from bench.harness.catalogue import OURS, PEERS, StoreKind
from bench.harness.metrics import METRIC
from bench.harness.own_scenarios import OWN_SCENARIOS, beside_history, connect_beside, under_snapshot
from bench.harness.plan import choose, make_plan
from bench.harness.scenarios import Scenario, Sizes
from bench.harness.stores import PostgresWork, Stores
from bench.peers.adapter import make_payload
from bench.peers.euterpe import Euterpe
from bench.raw.euterpe_rows import PROBES
from bench.raw.probe import Probe
from euterpe.model.state import State
from euterpe.queue.job import Job
from tests.bench.test_scenarios import TINY
from tests.faults.recorder import rows

SIZES = Sizes(jobs=40, latency_per_second=100, latency_s=0.2, history_jobs=200)
BY_NAME = {scenario.name: scenario for scenario in OWN_SCENARIOS}
OURS_BY_STORE = {subject.store: subject for subject in OURS}


class OneStore(Stores):
    """The test's own database, in place of one that is made anew for each measurement."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(None, None, folder)
        self._url = url

    async def fresh(self, kind: StoreKind) -> str:
        return self._url

    async def postgres_work(self) -> PostgresWork:
        return PostgresWork(0, 0, 0.0)


@pytest.mark.parametrize("name", ["submit-64", "latency-local", "drain-x4"])
async def test_what_needs_nothing_of_ours_runs_on_any_peer(name: str, tmp_path: Path) -> None:
    figures = await BY_NAME[name].measure(TINY, Stores(None, None, tmp_path), SIZES)

    assert figures
    assert all(value > 0 and METRIC[metric].ours_alone for metric, value in figures.items())


@pytest.mark.parametrize("name", ["drain-callbacks", "drain-chains", "drain-keys", "drain-history", "latency-local"])
async def test_we_are_measured_in_each_of_our_own_scenarios(
    name: str, engine: tuple[StoreKind, str], tmp_path: Path
) -> None:
    store, url = engine
    figures = await BY_NAME[name].measure(OURS_BY_STORE[store], OneStore(url, tmp_path), SIZES)

    assert figures
    assert all(value > 0 and METRIC[metric].ours_alone for metric, value in figures.items())


async def test_we_are_measured_under_a_snapshot(fresh_postgres_url: str, tmp_path: Path) -> None:
    stores = OneStore(fresh_postgres_url, tmp_path)

    assert (await BY_NAME["drain-snapshot"].measure(OURS_BY_STORE["postgres"], stores, SIZES))["drain_snapshot"] > 0


async def test_streams_carry_the_wake_ups_of_their_own_subject(
    fresh_postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    stores = OneStore(f"{fresh_postgres_url}#{redis_url}", tmp_path)

    figures = await BY_NAME["latency-local"].measure(OURS_BY_STORE["postgres+redis"], stores, SIZES)

    assert figures["latency_local_p50"] > 0


@pytest.mark.parametrize("scenario", OWN_SCENARIOS, ids=lambda scenario: scenario.name)
def test_nobody_else_is_put_through_our_own_scenarios(scenario: Scenario) -> None:
    plan = make_plan(choose(PEERS, (), [], [scenario.name]), cast(Stores, None), Sizes())

    assert plan
    assert {measurement.subject for measurement in plan} <= {subject.name for subject in OURS}


async def submitted(url: str, shape: str, jobs: int) -> list[Job]:
    peer = Euterpe(url, {"submit_batch": 20, "shape": shape})
    await peer.setup()
    await peer.open()
    assert peer.queue is not None
    await peer.submit_bulk([make_payload(number) for number in range(jobs)])
    page = await peer.queue.search(limit=100)
    await peer.queue.__aexit__(None, None, None)
    return list(page.jobs)


async def test_jobs_with_callbacks_have_one_event_each(sqlite_url: str) -> None:
    jobs = await submitted(sqlite_url, "callbacks", 40)

    assert len(jobs) == 40
    assert {(job.callback_url is None, job.callback_events) for job in jobs} == {(False, "terminal")}


async def test_one_of_ten_jobs_in_chains_is_ready_at_first(sqlite_url: str) -> None:
    states = [job.state for job in await submitted(sqlite_url, "chains", 40)]

    assert (states.count(State.SCHEDULED), states.count(State.PENDING)) == (4, 36)


async def test_the_history_lies_there_before_anything_is_submitted(engine: tuple[StoreKind, str]) -> None:
    _, url = engine
    peer = Euterpe(url, {})
    await peer.setup()

    async with beside_history(200, url):
        await peer.open()
        assert peer.queue is not None
        ended = sum((await peer.queue.stats()).by_state.values())
        unfinished = await peer.unfinished()
        await peer.queue.__aexit__(None, None, None)

    assert (ended, unfinished) == (200, 0)


async def test_the_snapshot_is_held_as_long_as_the_measurement_lasts(fresh_postgres_url: str) -> None:
    await Euterpe(fresh_postgres_url, {}).setup()
    watcher = await connect_beside(fresh_postgres_url)
    held = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND state = 'idle in transaction'"
        " AND query LIKE '%inbox_jobs%' AND pid <> pg_backend_pid()"
    )
    try:
        async with under_snapshot(fresh_postgres_url):
            assert await watcher.fetchval(held) >= 1
    finally:
        await watcher.close()


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
async def test_our_row_is_stored_by_the_bare_driver(probe: Probe, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue("sqlite_url" if probe.store == "sqlite" else "fresh_postgres_url")

    assert await probe.measure(url, 30) > 0

    ((stored,),) = rows(url, "SELECT COUNT(*) FROM inbox_jobs WHERE state = 'scheduled'")
    assert stored == 31, "the rows and the one that they were made like"
