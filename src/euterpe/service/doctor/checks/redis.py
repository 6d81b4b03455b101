"""Checks of the Redis that carries wake-ups."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import RedisFacts
from euterpe.model.diagnosis.finding import Check, Complaint, error, warning

OLDEST: Final = (6, 2)
"""XAUTOCLAIM came with it."""
FULL: Final = 0.9


def reachable(facts: RedisFacts) -> Complaint | None:
    if not facts.unreachable:
        return None
    return error(
        f"Redis does not answer ({facts.unreachable}); jobs are found by polling the database meanwhile",
        "see redis.addr and its password, and whether the server runs",
    )


def version(facts: RedisFacts) -> Complaint | None:
    if facts.unreachable or not facts.version or facts.version >= OLDEST:
        return None
    return warning(f"Redis {'.'.join(map(str, facts.version))} is older than 6.2", "upgrade Redis")


def eviction(facts: RedisFacts) -> Complaint | None:
    if facts.unreachable or facts.eviction_policy == "noeviction":
        return None
    return warning(
        f"maxmemory-policy is {facts.eviction_policy}: under pressure Redis throws our streams away",
        "CONFIG SET maxmemory-policy noeviction, or give the queue a Redis of its own",
    )


def memory(facts: RedisFacts) -> Complaint | None:
    if not facts.memory_limit or facts.memory_used < FULL * facts.memory_limit:
        return None
    return warning(
        f"Redis uses {100 * facts.memory_used // facts.memory_limit} % of its maxmemory",
        "raise maxmemory, or remove data",
    )


CHECKS: Final[tuple[Check[RedisFacts], ...]] = (
    Check("redis_reachable", "Redis answers", reachable),
    Check("redis_version", "Redis is new enough", version),
    Check("redis_eviction", "Redis throws nothing away", eviction),
    Check("redis_memory", "Redis has memory left", memory),
)
