"""A claim on SQLite: its one writer may look first and write then; in one statement, it would hand out row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

import msgspec
from msgspec.structs import replace

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.stores.sql.json_rows import unpack_rows
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.rows import fresh_from, jobs_from, sort_by_urgency

PACKED_LIMIT: Final = 8_000_000
"""Jobs with more bytes than this in all are fetched row by row: SQLite has a limit for one value."""
SMALL_BYTES: Final = 8_000
"""A payload of so many comes along when its job is picked, before anybody knows how many others there are."""

NONE: Final = "[]"

_numbers = msgspec.json.Decoder(list[int])
_texts = msgspec.json.Decoder(list[str])

Keyed = tuple[int, str, int | None]
"""The number of a job with a concurrency key, its limit key and its limit."""
_keyed = msgspec.json.Decoder(list[Keyed])


class FreshJobs(msgspec.Struct, frozen=True):
    """Small jobs as their submit left them, which came along when they were picked; more than are taken, maybe."""

    ids: str
    payloads: str
    """In hex, one behind the other: a JSON value is read twice, and knows no bytes."""
    kinds: str
    """What else there is to say of each of them; once, where it is the same of all."""

    def rows(self, seqs: str) -> Iterator[tuple[int, str, bytes, Row]]:
        """Number, id, payload and kind of each that is taken."""
        kinds = unpack_rows(self.kinds)
        return zip(
            _numbers.decode(seqs),
            _texts.decode(self.ids),
            map(bytes.fromhex, self.payloads.split(",")),
            repeat(kinds[0]) if len(kinds) == 1 else kinds,
            strict=False,  # Fewer may be taken than came along.
        )


class Picked(msgspec.Struct, frozen=True):
    """The front of a queue's line, before or after it was taken."""

    queue: str
    worker_id: str
    lease_ttl_us: int
    seqs: str
    size: int
    picked_at: int
    is_quiet: bool
    """No event to write."""
    fresh: FreshJobs | None
    """The jobs themselves, where all came along."""
    keyed: Sequence[Keyed] = ()
    """Those with a concurrency key; more than are taken, maybe."""
    fit: bool = True
    """All of them may run at once: no key is over its limit with them, and none has a rate."""

    @property
    def is_plain(self) -> bool:
        """Nothing is left to do in the transaction once these are taken."""
        return self.fresh is not None and self.is_quiet and self.fit

    def jobs(self) -> list[JobRow]:
        """As `take` leaves them, in the order of the line. Neighbours of one submit are copies of the first of them."""
        if self.fresh is None:
            return []
        taken = (self.queue, self.worker_id, self.lease_ttl_us, self.picked_at)
        jobs: list[JobRow] = []
        last: Row | None = None
        for seq, id_, payload, kind in self.fresh.rows(self.seqs):
            if kind is last or kind == last:
                job = replace(jobs[-1], seq=seq, id=id_, payload=payload)
            else:
                job, last = fresh_from(seq, id_, payload, kind, *taken), kind
            jobs.append(job)
        return _with_keys(jobs, self.keyed) if self.keyed else jobs

    def claims(self) -> list[Claim]:
        return claims_of(self.jobs())


def claims_of(jobs: list[JobRow]) -> list[Claim]:
    return [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]


def _with_keys(jobs: list[JobRow], keyed: Sequence[Keyed]) -> list[JobRow]:
    keys = {seq: (name, limit) for seq, name, limit in keyed}
    return [job if (key := keys.get(job.seq)) is None else _with_key(job, *key) for job in jobs]


def _with_key(job: JobRow, name: str, limit: int | None) -> JobRow:
    """`limit_key.sql` has put the name together."""
    return replace(job, concurrency_key=name[len(job.requester_id) + 1 :], concurrency_limit=limit)


def pick(request: ClaimRequest, queue: str, released: Sequence[int] = ()) -> Program[Picked]:
    """For a worker that asks for more than it can begin: up to the first behind the limit that cannot wait. `released`
    are jobs that this transaction lets go: they stand in the line, though their rows do not say so yet."""
    asked: dict[str, object] = {
        "queue": queue,
        "types": None if request.types is None else list(request.types),
        "small": SMALL_BYTES,
    }
    if released or request.prefetch:
        asked |= {"limit": request.total, "prefetch_types": list(request.prefetch_types)}
        ((*front, keyed_said, cannot_wait),) = yield (
            one("pick_released", **asked, released=list(released)) if released else one("pick_ahead", **asked)
        )
    else:
        ((*front, keyed_said),) = yield one("pick", **asked, limit=request.limit)
        cannot_wait = NONE
    seqs, size, picked_at, is_quiet, *fresh = front
    keyed: list[Keyed] = []
    fit = True
    if keyed_said is not None or cannot_wait != NONE:
        keyed = [] if keyed_said is None else _keyed.decode(f"[{keyed_said}]")
        line = _numbers.decode(seqs)
        end, fit = yield from _front(line, keyed, set(_numbers.decode(cannot_wait)), request.limit)
        if end < len(line):
            seqs = msgspec.json.encode(line[:end]).decode()
    came_along = None if fresh[-1] is None else FreshJobs(*fresh)
    return Picked(
        queue, request.worker_id, request.lease_ttl_us, seqs, size, picked_at, bool(is_quiet), came_along, keyed, fit
    )


def _front(line: Sequence[int], keyed: Sequence[Keyed], cannot_wait: set[int], limit: int) -> Program[tuple[int, bool]]:
    """How many of the line come, and whether all of those may run at once. Behind the limit comes what can wait: that
    counts among its key's running jobs meanwhile, and must not be parked for a place that it takes itself. One of a key
    with a rate cannot wait."""
    counted = (yield one("running_by_key", keys=sorted({name for _, name, _ in keyed}))) if keyed else []
    running = Counter({name: count for name, count, _ in counted})
    rated = {name for name, _, has_rate in counted if has_rate}
    keys = {seq: (name, most) for seq, name, most in keyed}
    fit = True
    for at, seq in enumerate(line):
        can_wait = seq not in cannot_wait
        is_over = False
        if (key := keys.get(seq)) is not None:
            name, most = key
            running[name] += 1
            is_over = name in rated or (most is not None and running[name] > most)
            can_wait = can_wait and most is not None and not is_over
        if at >= limit and not can_wait:
            return at, fit
        fit = fit and not is_over
    return len(line), fit


def take(picked: Picked, statement: str = "take") -> Program[None]:
    yield one(
        statement,
        seqs=picked.seqs,
        worker_id=picked.worker_id,
        lease_ttl_us=picked.lease_ttl_us,
        picked_at=picked.picked_at,
    )


def take_released(picked: Picked, released: Sequence[int]) -> Program[None]:
    """Take them with one write each, those that this transaction lets go as well; what is not taken of these is let go
    only."""
    left = set(released).difference(_numbers.decode(picked.seqs))
    if left:
        yield one("release_dependents", seqs=list(left))
    yield from take(picked, "take_released")


def taken_jobs(picked: Picked) -> Program[list[JobRow]]:
    """Take them, and read those that did not come along."""
    if picked.seqs == NONE:
        return []
    yield from take(picked)
    if picked.fresh is not None:
        return picked.jobs()
    jobs = jobs_from((yield one("taken_large" if picked.size >= PACKED_LIMIT else "taken", seqs=picked.seqs)))
    sort_by_urgency(jobs)
    return jobs
