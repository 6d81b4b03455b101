"""The peers: where each lives, its fastest documented settings (ours: the defaults), how many jobs make a measurement.

Whatever a reader may want to doubt about a figure stands in this one list, and is copied into every report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from bench.harness.environments import Environment
from bench.peers.adapter import Setting

StoreKind = Literal["postgres", "postgres+redis", "redis", "sqlite"]
"""`postgres+redis`: the jobs in Postgres, a Redis beside it; the URL is the one, `#` and the other."""


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    store: StoreKind
    environment: Environment
    distribution: str
    adapter: str
    """A module's name; for Node a file's path in the repository."""
    drain_jobs: int
    single_jobs: int
    bulk_jobs: int
    """0: the peer has no bulk call, and none is reported."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    keeps: str = ""
    """What is left of a finished job, for the table's notes."""
    scenarios: frozenset[str] | None = None
    """The only ones that say something about it; None: all."""
    lacks: Mapping[str, str] | None = None
    """The shapes of jobs that it cannot take, with the reason; None: its adapter knows no shapes."""


def _python(name: str) -> Environment:
    return Environment("python", name)


def _node(name: str) -> Environment:
    return Environment("node", name)


DEFAULTS = {"concurrency": 100, "batch": 1000}
"""What a worker has if nobody says anything: the headline is taken as people run it."""

OURS = (
    Subject(
        name="euterpe",
        store="postgres",
        environment=Environment("repository", "euterpe"),
        distribution="euterpe-queue",
        adapter="bench.peers.euterpe",
        drain_jobs=80_000,
        single_jobs=2_000,
        bulk_jobs=50_000,
        settings={"submit_batch": 1000, **DEFAULTS},
        keeps="the row with its result, and each attempt",
        lacks={},
    ),
    Subject(
        name="euterpe-sqlite",
        store="sqlite",
        environment=Environment("repository", "euterpe"),
        distribution="euterpe-queue",
        adapter="bench.peers.euterpe",
        drain_jobs=80_000,
        single_jobs=3_000,
        bulk_jobs=50_000,
        settings={"submit_batch": 1000, **DEFAULTS},
        keeps="the row with its result, and each attempt",
        lacks={},
    ),
    Subject(
        name="euterpe-streams",
        store="postgres+redis",
        environment=Environment("repository", "euterpe"),
        distribution="euterpe-queue",
        adapter="bench.peers.euterpe",
        drain_jobs=80_000,
        single_jobs=2_000,
        bulk_jobs=50_000,
        settings={"submit_batch": 1000, **DEFAULTS},
        keeps="the row with its result, and each attempt; Redis Streams only wake",
    ),
    Subject(
        name="euterpe-redis",
        store="redis",
        environment=Environment("repository", "euterpe"),
        distribution="euterpe-queue",
        adapter="bench.peers.euterpe",
        drain_jobs=60_000,
        single_jobs=5_000,
        bulk_jobs=30_000,
        settings={"submit_batch": 1000, **DEFAULTS},
        keeps="the record with its result, the entry in the completed list, and each attempt that failed",
        scenarios=frozenset({"submit-one", "submit-bulk", "drain-x1", "drain-x2", "latency", "idle", "submit-64"}),
    ),
)

OTHER_SLOTS = tuple(
    replace(
        ours,
        name=f"{ours.name}-{slots}",
        settings={**ours.settings, "concurrency": slots},
        scenarios=frozenset({"drain-x1"}),
    )
    for ours in OURS[:2]
    for slots in (24, 2000)
)
"""How much the drain depends on the concurrency: graphile-worker's 24 slots, and as many as help."""

OVER_HTTP = (
    Subject(
        name="euterpe-http",
        store="postgres",
        environment=Environment("repository", "euterpe"),
        distribution="euterpe-queue",
        adapter="bench.peers.euterpe_http",
        drain_jobs=40_000,
        single_jobs=0,
        bulk_jobs=0,
        settings={"concurrency": 2000, "batch": 1000, "submit_batch": 1000},
        keeps="the row with its result, and each attempt",
        scenarios=frozenset({"drain-x1", "latency"}),
    ),
    Subject(
        name="euterpe-http-single",
        store="postgres",
        environment=Environment("repository", "euterpe"),
        distribution="euterpe-queue",
        adapter="bench.peers.euterpe_http_single",
        drain_jobs=10_000,
        single_jobs=0,
        bulk_jobs=0,
        settings={"connections": 32, "submit_batch": 1000},
        keeps="the row with its result, and each attempt",
        scenarios=frozenset({"drain-x1", "latency"}),
    ),
)
"""Our worker through one API process: `--ratio euterpe-http:euterpe` says what HTTP costs."""

PEERS = (
    *OURS,
    *OTHER_SLOTS,
    *OVER_HTTP,
    Subject(
        name="graphile-worker",
        store="postgres",
        environment=_node("graphile-worker"),
        distribution="graphile-worker",
        adapter="bench/peers/graphile_worker.mjs",
        drain_jobs=50_000,
        single_jobs=1_000,
        bulk_jobs=30_000,
        settings={
            "concurrent_jobs": 24,
            "local_queue": 500,
            "complete_batch_delay_ms": 0,
            "pool_size": 10,
            "submit_batch": 1000,
        },
        keeps="nothing",
        lacks={"retried": "a retry waits for e^attempts seconds, which cannot be set"},
    ),
    Subject(
        name="pgqueuer",
        store="postgres",
        environment=_python("pgqueuer"),
        distribution="pgqueuer",
        adapter="bench.peers.pgqueuer",
        drain_jobs=40_000,
        single_jobs=2_000,
        bulk_jobs=30_000,
        settings={"batch_size": 1000, "submit_batch": 1000},
        keeps="a log row per step, without payload",
        lacks={},
    ),
    Subject(
        name="pg-boss",
        store="postgres",
        environment=_node("pg-boss"),
        distribution="pg-boss",
        adapter="bench/peers/pg_boss.mjs",
        drain_jobs=60_000,
        single_jobs=1_000,
        bulk_jobs=20_000,
        settings={"batch_size": 5000, "poll_s": 0.5, "submit_batch": 1000},
        keeps="the row",
    ),
    Subject(
        name="awa-pg",
        store="postgres",
        environment=_python("awa"),
        distribution="awa-pg",
        adapter="bench.peers.awa",
        drain_jobs=20_000,
        single_jobs=1_000,
        bulk_jobs=10_000,
        settings={"slots": 1000, "claimers": 1, "claim_batch": 512, "connections": 10, "submit_batch": 1000},
        keeps="the row for seconds, then a count",
    ),
    Subject(
        name="procrastinate",
        store="postgres",
        environment=_python("procrastinate"),
        distribution="procrastinate",
        adapter="bench.peers.procrastinate",
        drain_jobs=2_000,
        single_jobs=1_000,
        bulk_jobs=10_000,
        settings={"concurrency": 20, "submit_batch": 1000},
        keeps="the row and its events",
    ),
    Subject(
        name="bullmq",
        store="redis",
        environment=_node("bullmq"),
        distribution="bullmq",
        adapter="bench/peers/bullmq.mjs",
        drain_jobs=30_000,
        single_jobs=5_000,
        bulk_jobs=20_000,
        settings={"concurrency": 50, "submit_batch": 1000},
        keeps="nothing (removeOnComplete)",
    ),
    Subject(
        name="dramatiq",
        store="redis",
        environment=_python("dramatiq"),
        distribution="dramatiq",
        adapter="bench.peers.dramatiq",
        drain_jobs=15_000,
        single_jobs=5_000,
        bulk_jobs=0,
        settings={"threads": 2, "queue_prefetch": 500},
        keeps="nothing",
    ),
    Subject(
        name="taskiq",
        store="redis",
        environment=_python("taskiq"),
        distribution="taskiq",
        adapter="bench.peers.taskiq",
        drain_jobs=10_000,
        single_jobs=3_000,
        bulk_jobs=8_000,
        settings={"async_tasks": 100, "prefetch": 100, "submit_batch": 500},
        keeps="the stream entry",
    ),
    Subject(
        name="huey-redis",
        store="redis",
        environment=_python("huey"),
        distribution="huey",
        adapter="bench.peers.huey_redis",
        drain_jobs=10_000,
        single_jobs=5_000,
        bulk_jobs=0,
        settings={"threads": 2, "poll_s": 0.01},
        keeps="nothing; at most once",
    ),
    Subject(
        name="celery",
        store="redis",
        environment=_python("celery"),
        distribution="celery",
        adapter="bench.peers.celery",
        drain_jobs=5_000,
        single_jobs=2_000,
        bulk_jobs=0,
        settings={"pool": "solo", "prefetch_multiplier": 100},
        keeps="nothing (results ignored)",
    ),
    Subject(
        name="rq",
        store="redis",
        environment=_python("rq"),
        distribution="rq",
        adapter="bench.peers.rq",
        drain_jobs=1_000,
        single_jobs=2_000,
        bulk_jobs=5_000,
        settings={"submit_batch": 1000},
        keeps="the job hash, for 500 s",
    ),
    Subject(
        name="huey-sqlite",
        store="sqlite",
        environment=_python("huey"),
        distribution="huey",
        adapter="bench.peers.huey_sqlite",
        drain_jobs=10_000,
        single_jobs=5_000,
        bulk_jobs=0,
        settings={"threads": 1, "poll_s": 0.01},
        keeps="nothing; at most once",
    ),
)
