"""Concurrency keys: how many jobs of a key run at once, and how many may start in a time.

A key never has more jobs in the line than its limit leaves free and its rate has tokens for. The others wait in the
key's own line, and one enters when one leaves. So no claim, submit or settle does work that grows with a key's backlog.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.statements import Family

LOOK: Final = 100
"""So many jobs of a key may give their places in the line at once to more urgent ones that became ready."""
LOOK_FAR: Final = 1000
"""The same for a sweep, and for a key that lost tokens."""
STALE_US: Final = 5_000_000
"""Jobs of a key that nobody took for so long give their places to jobs of other kinds."""
REST_US: Final = 60_000_000
"""So long jobs of other kinds go first."""


def admit(
    freed: Mapping[str, int],
    *,
    left: Collection[tuple[str, str]] = (),
    waits_us: Mapping[str, int] | None = None,
    look: int = LOOK,
) -> Program[list[str]]:
    """Let jobs of these keys into the line for which there is a place; returns their queues, one entry a job.

    `freed` is how many jobs of each key have stopped running; 0 where one became ready. `left` are jobs that left the
    line otherwise than by a claim, as (key, id). `waits_us` is how long the rate of a key is to rest. Call it last:
    whoever holds a key must not wait for a row."""
    if not freed:
        return []
    yield from hold_keys(freed)
    if waits_us:
        yield each("hold_rate", name=list(waits_us), wait_us=list(waits_us.values()))
        look = LOOK_FAR
    if left:
        yield each("recount_line", name=[key for key, _ in left], id=[job_id for _, job_id in left])
    return (yield from _admit_held({name: 0 if count and not waits_us else look for name, count in freed.items()}))


def hold_keys(freed: Mapping[str, int]) -> Program[None]:
    """Hold keys until the transaction ends. Everybody holds them in the order of Python: two orders would deadlock."""
    names = sorted(freed)
    yield each("hold_keys", name=names, freed=[freed[name] for name in names])


def admit_due(limit: int) -> Program[list[str]]:
    """Jobs of keys whose rates have tokens for them, or that were submitted in a caller's transaction; returns their
    queues, one entry a job."""
    names = {row[0] for row in (yield one("due_keys", limit=limit))}
    names |= {row[0] for row in (yield one("take_entered_keys", limit=limit))}
    return (yield from admit(dict.fromkeys(names, 0)))


def admit_after_commit(names: Collection[str]) -> Program[None]:
    """For a transaction that may stay open for long, and must hold no key: a sweep admits them."""
    if names:
        yield each("admit_later", name=sorted(names))


def repair_keys(names: Collection[str], family: Family) -> Program[list[str]]:
    """Count these keys again, take places from what nobody takes, and admit; forget keys that nobody uses. Returns the
    queues of those that entered the line, one entry a job."""
    if not names:
        return []
    yield from hold_keys(dict.fromkeys(names, 0))
    if family == "postgres":
        yield each("recount_line", name=sorted(names), id=[None] * len(names))
        yield each("recount_running", name=sorted(names))
        yield one("pass_over", names=list(names), stale_us=STALE_US, rest_us=REST_US)
    queues = yield from _admit_held(dict.fromkeys(names, LOOK_FAR))
    if family == "postgres":
        yield one("forget_keys", names=list(names))
    return queues


def _admit_held(look: Mapping[str, int]) -> Program[list[str]]:
    statement = "admit_in_order" if any(look.values()) else "admit"
    rows = yield each(statement, name=sorted(look), look=[look[name] for name in sorted(look)])
    return [row[1] for row in rows]
