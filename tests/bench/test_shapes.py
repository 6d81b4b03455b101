"""The shapes of jobs: who takes which, what our adapter submits for each, a tiny drain of each, and their table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from bench.compare import MEASUREMENTS
from bench.harness.catalogue import OURS, PEERS, StoreKind
from bench.harness.headline import HEADLINE_SCENARIOS
from bench.harness.metrics import METRIC
from bench.harness.plan import choose, make_plan
from bench.harness.rounds import Outcome
from bench.harness.scenarios import Sizes, drain_shape
from bench.harness.shape_table import render_shapes
from bench.harness.shapes import SHAPES, Shape
from bench.harness.stores import Stores
from bench.harness.summary import summarise
from bench.peers.adapter import make_payload
from bench.peers.euterpe import Euterpe
from euterpe.model.priority import Priority
from euterpe.model.state import State
from euterpe.queue.job import Job
from tests.bench.test_own_scenarios import OneStore
from tests.bench.test_scenarios import TINY

JOBS = 40
NAMES = [shape.name for shape in SHAPES]
BY_NAME = {shape.name: shape for shape in SHAPES}
OURS_BY_STORE = {subject.store: subject for subject in OURS}


def test_every_shape_is_measured_for_us_and_for_the_peers_that_can_take_it() -> None:
    plan = make_plan(choose(PEERS, (), [], [f"drain-{name}" for name in NAMES]), cast(Stores, None), Sizes())
    measured = {name: {step.subject for step in plan if step.scenario == f"drain-{name}"} for name in NAMES}

    everybody = {"euterpe", "euterpe-sqlite", "graphile-worker", "pgqueuer"}
    assert measured == {**dict.fromkeys(NAMES, everybody), "retried": everybody - {"graphile-worker"}}


def test_the_headline_and_the_comparison_of_two_trees_measure_every_shape() -> None:
    compared = {measurement.name for measurement in MEASUREMENTS}

    assert {f"drain-{name}" for name in NAMES} <= set(HEADLINE_SCENARIOS)
    assert {f"drain {name}, {store}" for name in NAMES for store in ("Postgres", "SQLite")} <= compared


def soon_due(shape: Shape) -> Shape:
    return replace(shape, due_after_s=min(shape.due_after_s, 0.1))


@pytest.mark.parametrize("name", NAMES)
async def test_we_are_measured_in_each_shape(name: str, engine: tuple[StoreKind, str], tmp_path: Path) -> None:
    store, url = engine
    shape = soon_due(BY_NAME[name])

    figures = await drain_shape(shape, OURS_BY_STORE[store], OneStore(url, tmp_path), Sizes(jobs=JOBS))

    costs = {"worker_cpu", "server_cpu", "wal", "commits"} if store == "postgres" else {"worker_cpu"}
    assert figures.keys() == {f"drain_{name}", *(f"drain_{name}_{cost}" for cost in costs)}
    assert all(METRIC[metric].of_shape for metric in figures)
    assert figures[f"drain_{name}"] > 0
    assert {(job.state, job.attempt) for job in await stored(url)} == {(State.COMPLETED, shape.starts)}


@pytest.mark.parametrize("name", ["lone", "delayed"])
async def test_any_peer_can_be_measured_in_a_shape(name: str, tmp_path: Path) -> None:
    figures = await drain_shape(soon_due(BY_NAME[name]), TINY, Stores(None, None, tmp_path), Sizes(jobs=JOBS))

    assert figures[f"drain_{name}"] > 0


async def stored(url: str) -> list[Job]:
    peer = Euterpe(url, {})
    await peer.open()
    assert peer.queue is not None
    page = await peer.queue.search(limit=100)
    await peer.queue.__aexit__(None, None, None)
    return list(page.jobs)


WHAT: dict[str, Callable[[Job], object]] = {
    "lone": lambda job: job.state,
    "web": lambda job: (job.state, job.correlation_id, job.tags["order"], job.idempotency_key),
    "tagged": lambda job: (job.state, job.tags["order"]),
    "mixed": lambda job: (job.state, job.priority),
    "delayed": lambda job: job.state,
    "retried": lambda job: job.state,
}
SEEN: dict[str, set[object]] = {
    "lone": {State.SCHEDULED},
    "web": {(State.SCHEDULED, f"visit-{n}", str(n), f"request-{n}") for n in range(JOBS)},
    "tagged": {(State.SCHEDULED, str(n)) for n in range(JOBS)},
    "mixed": {(State.SCHEDULED, priority) for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW)},
    "delayed": {State.DELAYED},
    "retried": {State.SCHEDULED},
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
async def test_our_jobs_have_the_shape_that_they_are_named_after(shape: Shape, sqlite_url: str) -> None:
    peer = Euterpe(sqlite_url, {"submit_batch": 20, "shape": shape.name, "due_after_s": 600})
    await peer.setup()
    await peer.open()
    assert peer.queue is not None
    payloads = [make_payload(number) for number in range(JOBS)]
    await (peer.submit_one(payloads) if shape.one_by_one else peer.submit_bulk(payloads))
    await peer.queue.__aexit__(None, None, None)

    jobs = await stored(sqlite_url)

    assert len(jobs) == JOBS
    assert {WHAT[shape.name](job) for job in jobs} == SEEN[shape.name]


def test_the_table_of_shapes_begins_with_the_worst_and_says_who_is_left_out() -> None:
    figures = {
        "euterpe": {"drain_x1": 60_000.0, "drain_lone": 30_000.0, "drain_mixed": 24_000.0, "drain_retried": 9_000.0,
                    "drain_lone_server_cpu": 31.0, "drain_lone_worker_cpu": 14.0, "drain_lone_wal": 950.0},
        "graphile-worker": {"drain_x1": 25_000.0, "drain_lone": 25_000.0, "drain_mixed": 16_000.0},
        "pgqueuer": {"drain_x1": 20_000.0, "drain_lone": 20_000.0},
    }  # fmt: skip
    subjects = [subject for subject in PEERS if subject.name in figures]
    summary = summarise([Outcome(1, name, "drain", found) for name, found in figures.items()])

    table = render_shapes(subjects, summary)

    assert table is not None
    lines = table.splitlines()
    shapes = list(dict.fromkeys(line[2:].partition(":")[0] for line in lines[4:]))
    assert shapes == ["lone", "mixed", "bulk", "retried"]
    assert lines[4] == (
        "| lone: submitted one by one | **euterpe** | 30,000 | 1.20 (1.20-1.20) | 1.50 (1.50-1.50) "
        "| 31.0 | 14.0 | 950 |"
    )
    assert lines[-1].startswith("| retried: bulk, each fails once | graphile-worker | a retry waits for e^attempts")
    assert render_shapes(subjects, summarise([Outcome(1, "euterpe", "drain-x1", {"drain_x1": 1.0})])) is None
