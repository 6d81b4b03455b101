"""What is submitted and what breaks, in which order: a pure function of the seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

Engine = Literal["sqlite", "postgres", "redis"]

ANYWHERE: Final = (
    "kill_worker", "kill_worker", "kill_in_a_burst", "stop_in_a_burst", "kill_keeper", "freeze_worker",
    "kill_submitter", "kill_dispatcher", "kill_api", "receiver_refuses", "receiver_hangs", "receiver_redirects",
    "hold_lock", "operator_transaction", "disk_full", "killer_job", "block_loop", "outage_past_the_lease",
    "prune_under_traffic", "dead_store",
)  # fmt: skip
ON_POSTGRES: Final = (
    "terminate_backends",
    "restart_database",
    "cut_network",
    "swallow_packets",
    "read_only",
    "lock_timeout",
    "skew_clock",
)
"""Only there: whoever shares a SQLite file shares the machine's clock."""
ON_STREAMS: Final = ("kill_redis", "flush_redis", "forge_messages")
ON_LISTS: Final = (
    "kill_worker", "kill_worker", "kill_in_a_burst", "stop_in_a_burst", "kill_keeper", "freeze_worker",
    "kill_submitter", "kill_redis", "kill_redis", "pause_connections", "cut_connections", "forget_scripts",
    "copy_entries",
)  # fmt: skip
"""Where the jobs themselves are in Redis: all that there is."""
EVERY_KIND: Final = tuple(dict.fromkeys((*ANYWHERE, *ON_POSTGRES, *ON_STREAMS)))
OFFSETS_S: Final = (-26 * 3600.0, -600.0, 600.0, 7 * 3600.0)
"""How wrong a clock can be."""
TENANTS: Final = ("ada", "bob")
LIMIT: Final = 2
KILLED_BY_A_JOB: Final = 7
"""The exit code of a worker that a job takes down."""
ATTIC: Final = "attic"
"""A queue that no worker serves, for jobs that only wait to be removed."""
LOT_EACH: Final = 10
"""After so many lone jobs a submitter has a lot of plain ones to submit at once."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    pause_s: float
    """How long to wait before it."""
    lasts_s: float
    choice: float
    """Which of the processes is hit: a share of their number."""


def faults(seed: int, engine: Engine, *, streams: bool = True, only: Collection[str] = ()) -> Iterator[Fault]:
    """Without end; each kind comes once before any comes again, so that a short run meets many."""
    rng = random.Random(f"faults {seed}")
    if engine == "redis":
        possible = list(ON_LISTS)
    else:
        possible = [*ANYWHERE, *(ON_POSTGRES if engine == "postgres" else ()), *(ON_STREAMS if streams else ())]
    kinds = [kind for kind in possible if not only or kind in only]
    if not kinds:
        return
    while True:
        rng.shuffle(kinds)
        for kind in kinds:
            yield Fault(kind, rng.uniform(0.2, 1.2), rng.uniform(0.5, 2.0), rng.random())


def submission(seed: int, number: int, callback_url: str) -> dict[str, Any]:
    """The options of one job. `after` are the distances to earlier jobs of the same submitter that it depends on."""
    rng = random.Random(f"job {seed} {number}")
    tenant = rng.choice((None, None, *TENANTS))
    drawn = rng.random()
    return {
        "payload": {
            "ms": rng.choice((0, 5, 50, 300, 1500, 3000)),
            "failures": rng.choice((0, 0, 0, 0, 1, 2)),
            "for_good": drawn > 0.95,
            "spawn": 2 if drawn < 0.05 else 0,
        },
        "after": rng.sample(range(1, 10), k=rng.choice((0, 0, 0, 1, 2))),
        "options": {
            "priority": rng.choice(("critical", "high", "normal", "low", "bulk")),
            "max_attempts": rng.randint(2, 6),
            "delay": rng.choice(("0s", "0s", "0s", "300ms")),
            "idempotency_key": f"{seed}-{number}",
            "dependency": rng.choice(("after", "after_any", "chain", "fan_in")),
            "concurrency_key": tenant,
            "concurrency_limit": LIMIT if tenant else None,
            "callback_url": callback_url if rng.random() < 0.4 else None,
        },
    }


def lot(seed: int, number: int) -> dict[str, Any] | None:
    """Plain jobs that one submit stores, all alike: on Postgres they stand in long runs of the line."""
    rng = random.Random(f"lot {seed} {number}")
    if rng.randrange(LOT_EACH):
        return None
    return {
        "count": rng.randint(16, 60),
        "payload": {
            "ms": rng.choice((0, 0, 5, 50, 300, 1000)),
            "failures": rng.choice((0, 0, 0, 1)),
            "for_good": rng.random() < 0.1,
            "spawn": 0,
        },
        "options": {
            "priority": rng.choice(("critical", "high", "normal", "low", "bulk")),
            "max_attempts": rng.randint(2, 6),
        },
    }
