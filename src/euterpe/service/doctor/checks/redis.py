"""Checks of the Redis that carries wake-ups, or that the jobs themselves are in."""

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
    meanwhile = "no job runs" if facts.holds_jobs else "jobs are found by polling the database meanwhile"
    return error(
        f"Redis does not answer ({facts.unreachable}); {meanwhile}",
        "see redis.addr and its password, and whether the server runs",
    )


def version(facts: RedisFacts) -> Complaint | None:
    if facts.unreachable or not facts.version or facts.version >= OLDEST:
        return None
    return warning(f"Redis {'.'.join(map(str, facts.version))} is older than 6.2", "upgrade Redis")


def eviction(facts: RedisFacts) -> Complaint | None:
    if facts.unreachable or facts.eviction_policy == "noeviction":
        return None
    complain, lost = (error, "jobs") if facts.holds_jobs else (warning, "our streams")
    return complain(
        f"maxmemory-policy is {facts.eviction_policy}: under pressure Redis throws {lost} away",
        "CONFIG SET maxmemory-policy noeviction, or give the queue a Redis of its own",
    )


def persistence(facts: RedisFacts) -> Complaint | None:
    if facts.unreachable or not facts.holds_jobs or facts.append_only:
        return None
    return warning(
        "the jobs are in Redis, and it keeps no append-only file: a crash loses those since its last snapshot",
        "CONFIG SET appendonly yes, or use a SQL engine",
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
    Check("redis_persistence", "what is in Redis is on its disk, or need not be", persistence),
    Check("redis_memory", "Redis has memory left", memory),
)
