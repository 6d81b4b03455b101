"""Jobs that completed on SQLite, settled by what their claims say, without a look at their rows.

The statements ask whether the rows still say the same. An event tells more of a job than whether it ended; the claim
that the worker holds says all of that, as long as nobody has changed the row meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Success
from euterpe.model.job import JobRow
from euterpe.stores.sql.exchange.simple_jobs import SimpleCompletions
from euterpe.stores.sql.jobs.effects import (
    Completions,
    follow_completed,
    group_uniform,
    insert_completions,
)
from euterpe.stores.sql.jobs.keys import admit
from euterpe.stores.sql.jobs.settle import Follows, are_uniform, complete
from euterpe.stores.sql.program import Program, each, one
from euterpe.stores.sql.rows import limit_key_of

_said: Final = attrgetter("callback_url", "tags_json", "correlation_id", "transitions")


class RowsSayMore(Exception):
    """Not all rows are as they were claimed, and nobody can say which: nothing of the transaction may last."""


class CallbackCompletions(msgspec.Struct, frozen=True):
    """All but the time, which is read in the transaction."""

    count: int
    settling: Mapping[str, object]
    """What `complete_with_callbacks` asks for."""
    uniform: Sequence[Completions]


def callback_completions(with_callbacks: Sequence[tuple[JobRow, bytes | None]]) -> CallbackCompletions | None:
    """None where they do not end alike, or the full path is no worse."""
    jobs = [job for job, _ in with_callbacks]
    versions, results = [job.claim_version for job in jobs], [result for _, result in with_callbacks]
    said = set(map(_said, jobs))
    if len(said) != 1 or not are_uniform(versions, results):
        return None
    ((callback_url, tags, correlation_id, transitions),) = said
    settling = {
        "seqs": [job.seq for job in jobs],
        "ids": [job.id for job in jobs],
        "claim_version": versions[0],
        "result": results[0],
        "callback_url": callback_url,
        "tags": tags,
        "correlation_id": correlation_id,
        "transitions": transitions,
    }
    return CallbackCompletions(len(jobs), settling, group_uniform(with_callbacks))


def complete_with_callbacks(with_callbacks: CallbackCompletions, plain: SimpleCompletions) -> Program[None]:
    """End them, and insert the events of those that are told. RowsSayMore: the transaction must not be committed."""
    ((at,),) = yield one("clock")
    yield one("complete_with_callbacks", **with_callbacks.settling, at=at)
    ((written,),) = yield one("changes")
    if written != with_callbacks.count:
        raise RowsSayMore
    yield from insert_completions(with_callbacks.uniform, at)
    if not (yield from complete_simple(plain)):
        raise RowsSayMore


class LinkedCompletions(msgspec.Struct, frozen=True):
    """Those with dependents, as their claims say, and those without."""

    linked: SimpleCompletions
    plain: SimpleCompletions
    freed: Sequence[str]
    """The concurrency keys of which some end."""


def linked_completions(finished: Sequence[Report]) -> LinkedCompletions | None:
    """None where none has dependents or a concurrency key, or an event follows from the end of one."""
    linked: list[tuple[JobRow, bytes | None]] = []
    plain: list[tuple[JobRow, bytes | None]] = []
    keys: list[str] = []
    for report in finished:
        job, outcome = report.claim.job, report.outcome
        if (
            type(outcome) is not Success
            or report.log is not None
            or job.callback_url is not None
            or job.stages_json is not None
        ):
            return None
        (linked if job.has_dependents else plain).append((job, outcome.result))
        if (key := limit_key_of(job)) is not None:
            keys.append(key)
    return LinkedCompletions(_lists_of(linked), _lists_of(plain), sorted(set(keys))) if linked or keys else None


def _lists_of(completions: Sequence[tuple[JobRow, bytes | None]]) -> SimpleCompletions:
    return SimpleCompletions(
        ids=[job.id for job, _ in completions],
        claim_versions=[job.claim_version for job, _ in completions],
        results=[result for _, result in completions],
        seqs=[job.seq for job, _ in completions],
    )


def complete_linked(completions: LinkedCompletions) -> Program[None]:
    """End them, release what waited for them (see `follow_completed`), free their keys. RowsSayMore: the transaction
    must not be committed."""
    if not (yield from _complete(completions.linked, Follows.RELEASES)):
        raise RowsSayMore
    if not (yield from complete_simple(completions.plain)):
        raise RowsSayMore
    if completions.linked:
        keys = yield from follow_completed(completions.linked.ids)
        yield from admit(dict.fromkeys(keys, 0))
    if completions.freed:
        # Nothing of these became ready, so the fronts that they have are right.
        yield each("admit", name=completions.freed)


def complete_simple(completions: SimpleCompletions) -> Program[bool]:
    """End plain jobs; whether that was all of them. What it left, `settle_or_confirm` finds and confirms."""
    return (yield from _complete(completions, Follows.NOTHING))


def _complete(completions: SimpleCompletions, follows: Follows) -> Program[bool]:
    if not completions:
        return True
    yield complete(
        completions.seqs,
        completions.ids,
        completions.claim_versions,
        completions.results,
        follows,
        completions.outcome_hashes,
    )
    ((written,),) = yield one("changes")
    return bool(written == len(completions))
