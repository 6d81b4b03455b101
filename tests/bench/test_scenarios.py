"""Every scenario on real child processes that hold a tiny peer: the protocol, the clocks and the counting."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.harness.catalogue import Subject
from bench.harness.environments import Environment
from bench.harness.peer_process import PeerFailed, PeerProcess, environ_of
from bench.harness.scenarios import SCENARIOS, Scenario, Sizes, all_started, drain_x1, submitting
from bench.harness.stores import Stores

TINY = Subject(
    name="tiny",
    store="sqlite",
    environment=Environment("repository", "repository"),
    distribution="tiny",
    adapter="tests.bench.tiny_peer",
    drain_jobs=200,
    single_jobs=100,
    bulk_jobs=200,
    settings={"broken": False},
)
SIZES = Sizes(latency_per_second=100, latency_s=0.2, settle_s=0, idle_s=0.2)
METRICS = {
    "submit-one": {"submit_one"},
    "submit-bulk": {"submit_bulk"},
    "drain-x1": {"drain_x1", "drain_x1_worker_cpu"},
    "drain-x2": {"drain_x2"},
    "latency": {"latency_p50", "latency_p99"},
    "idle": {"idle_cpu", "idle_rss"},
    "start": {"start", "start_cpu"},
}
NEEDS_NODE = pytest.mark.skipif(
    shutil.which("node") is None, reason="Node is not installed: the npm peers' protocol was not tested"
)


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(None, None, tmp_path)


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.fits(TINY)], ids=lambda scenario: scenario.name
)
async def test_a_scenario_measures_what_it_is_named_after(scenario: Scenario, stores: Stores) -> None:
    figures = await scenario.measure(TINY, stores, SIZES)

    assert figures.keys() == METRICS[scenario.name]
    # The kernel counts CPU in steps that are longer than so little work.
    assert all(value > 0 for metric, value in figures.items() if metric not in {"idle_cpu", "drain_x1_worker_cpu"})


def test_bytecode_is_kept_whatever_the_shell_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that compiles all that it imports keeps megabytes of it, and is not what a user runs."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in environ_of(TINY)


@pytest.fixture(params=["python", pytest.param("node", marks=NEEDS_NODE)])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    if request.param == "python":
        return TINY
    return replace(TINY, environment=Environment("node", str(tmp_path)), adapter="tests/bench/tiny_peer.mjs")


@pytest.mark.parametrize("name", ["drain-x1", "latency"])
async def test_python_and_node_peers_speak_the_same_protocol(name: str, subject: Subject, stores: Stores) -> None:
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.name == name)

    figures = await scenario.measure(subject, stores, SIZES)

    assert figures.keys() == METRICS[name]


async def test_starts_are_told_on_the_one_clock_that_all_processes_share(subject: Subject, stores: Stores) -> None:
    reported = asyncio.Event()
    async with submitting(subject, stores) as (url, client), PeerProcess(subject, url, reported) as worker:
        await worker.call("work")
        before_ns = time.monotonic_ns()
        await client.call("submit_paced", per_second=1000, jobs=5)
        await all_started([worker], reported, 5)
        drained = await client.call("await_drained", timeout_s=30)

        assert before_ns < worker.first_ns < drained["drained_ns"] < time.monotonic_ns()
        assert len(worker.latencies_us) == 5
        assert all(0 < latency_us * 1000 < time.monotonic_ns() - before_ns for latency_us in worker.latencies_us)


async def test_every_job_that_was_submitted_is_started_once(stores: Stores) -> None:
    reported = asyncio.Event()
    async with submitting(TINY, stores) as (url, client), PeerProcess(TINY, url, reported) as worker:
        await client.call("submit_bulk", jobs=300)
        await worker.call("work")
        await all_started([worker], reported, 300)
        await client.call("await_drained", timeout_s=30)

        assert worker.started == 300


async def test_each_measurement_begins_with_an_empty_store(stores: Stores) -> None:
    async with submitting(TINY, stores) as (first, client):
        await client.call("submit_bulk", jobs=10)
    async with submitting(TINY, stores) as (second, client):
        await client.call("await_drained", timeout_s=0)

        assert first != second


async def test_a_failing_peer_is_named_together_with_its_reason(stores: Stores) -> None:
    broken = replace(TINY, settings={"broken": True})

    with pytest.raises(PeerFailed, match=r"(?s)tiny failed at 'await_drained'.*told to be broken"):
        await drain_x1(broken, stores, SIZES)


async def test_a_worker_that_dies_is_noticed_instead_of_waited_for(stores: Stores) -> None:
    nowhere = "sqlite:///nowhere/at/all.db"
    reported = asyncio.Event()
    async with PeerProcess(TINY, nowhere, reported) as worker:
        await worker.call("work")

        with pytest.raises(PeerFailed, match=r"(?s)tiny ended while it should work.*CantOpen"):
            await all_started([worker], reported, 1)


async def test_a_command_that_the_peer_does_not_know_is_refused(stores: Stores) -> None:
    async with submitting(TINY, stores) as (_, client):
        with pytest.raises(PeerFailed, match="unknown command 'dance'"):
            await client.call("dance")
