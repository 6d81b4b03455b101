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
from euterpe.stores.sql.jobs.keys import admit
from euterpe.stores.sql.json_rows import unpack_rows
from euterpe.stores.sql.program import Program, Row, each, one
from euterpe.stores.sql.rows import fresh_from, jobs_from, sort_by_urgency

PACKED_LIMIT: Final = 8_000_000
"""Jobs with more bytes than this in all are fetched row by row: SQLite has a limit for one value."""
SMALL_BYTES: Final = 8_000
"""A payload of so many comes along when its job is picked, before anybody knows how many others there are."""

NONE: Final = "[]"

_numbers = msgspec.json.Decoder(list[int])
_texts = msgspec.json.Decoder(list[str])


class Keyed(msgspec.Struct, frozen=True, array_like=True):
    """A job with a concurrency key, as it was picked."""

    seq: int
    name: str
    limit: int | None
    running: int
    """How many jobs of the key run when this one begins, if it has one line only."""
    tokens: int | None
    """How many of the key's rate are left for this one and those behind it; None: it has no rate."""


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
    request: ClaimRequest
    seqs: str
    size: int
    picked_at: int
    is_quiet: bool
    """No event to write."""
    fresh: FreshJobs | None
    """The jobs themselves, where all came along."""
    keyed: Sequence[Keyed] = ()
    """Those with a concurrency key."""
    is_cut: bool = False
    """More may be ready: a key of several lines was full before its last job came."""

    @property
    def is_plain(self) -> bool:
        """Nothing is left to do in the transaction once these are taken."""
        return self.fresh is not None and self.is_quiet and not self.is_cut

    def jobs(self) -> list[JobRow]:
        """As `take` leaves them, in the order of the line. Neighbours of one submit are copies of the first of them."""
        if self.fresh is None:
            return []
        taken = (self.queue, self.request, self.picked_at)
        jobs: list[JobRow] = []
        last: Row | None = None
        for seq, id_, payload, kind in self.fresh.rows(self.seqs):
            if kind is last or kind == last:
                job = replace(jobs[-1], seq=seq, id=id_, payload=payload)
            else:
                job, last = fresh_from(seq, id_, payload, kind, *taken), kind
            jobs.append(job)
        if self.request.worker_ids:
            jobs = [replace(job, worker_id=owner) for job, owner in zip(jobs, self.request.worker_ids, strict=False)]
        return _with_keys(jobs, self.keyed) if self.keyed else jobs

    def owners(self) -> str | None:
        """The worker of each job by its number, as JSON; None: all are for one."""
        if not self.request.worker_ids:
            return None
        owners = zip(map(str, _numbers.decode(self.seqs)), self.request.worker_ids, strict=False)
        return msgspec.json.encode(dict(owners)).decode()

    def claims(self) -> list[Claim]:
        return claims_of(self.jobs())


def claims_of(jobs: list[JobRow]) -> list[Claim]:
    return [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]


def _with_keys(jobs: list[JobRow], keyed: Sequence[Keyed]) -> list[JobRow]:
    keys = {k.seq: (k.name, k.limit) for k in keyed}
    return [job if (key := keys.get(job.seq)) is None else _with_key(job, *key) for job in jobs]


def _with_key(job: JobRow, name: str, limit: int | None) -> JobRow:
    """`limit_key.sql` has put the name together."""
    return replace(job, concurrency_key=name[len(job.requester_id) + 1 :], concurrency_limit=limit)


def pick(request: ClaimRequest, queue: str) -> Program[Picked]:
    """For a worker that asks for more than it can begin: up to the first behind the limit that cannot wait."""
    ((seqs, size, picked_at, is_quiet, *fresh, keyed_said, cannot_wait),) = yield one(
        "pick",
        queue=queue,
        types=None if request.types is None else list(request.types),
        other_than=list(request.other_than),
        limit=request.total,
        prefetch_types=list(request.prefetch_types),
        small=SMALL_BYTES,
    )
    keyed: list[Keyed] = [] if keyed_said is None else _keyed.decode(f"[{keyed_said}]")
    over = _first_over(keyed)
    if over is not None or (request.prefetch and cannot_wait != NONE):
        line = _numbers.decode(seqs)
        end = _front(line, set(_numbers.decode(cannot_wait)) if request.prefetch else set(), request.limit, over)
        line = line[:end]
        seqs = msgspec.json.encode(line).decode()
        keyed = [k for k in keyed if k.seq in set(line)]
    came_along = None if fresh[-1] is None else FreshJobs(*fresh)
    return Picked(queue, request, seqs, size, picked_at, bool(is_quiet), came_along, keyed, is_cut=over is not None)


def _front(line: Sequence[int], cannot_wait: set[int], limit: int, over: int | None) -> int:
    """How many of the line come: behind the limit only what can wait, up to the first that cannot. None from `over`."""
    return next((at for at, seq in enumerate(line) if seq == over or (at >= limit and seq in cannot_wait)), len(line))


def _first_over(keyed: Sequence[Keyed]) -> int | None:
    """The first that has no place in its key or no token. Each line of a key keeps to the limit by itself; together
    they may be over it."""
    taken: dict[str, int] = {}
    first: dict[str, Keyed] = {}
    for job in keyed:
        begun = taken[job.name] = taken.get(job.name, -1) + 1
        front = first.setdefault(job.name, job)
        if job.limit is not None and front.running + begun >= job.limit:
            return job.seq
        if front.tokens is not None and begun >= front.tokens:
            return job.seq
    return None


def take(picked: Picked) -> Program[None]:
    yield one(
        "take",
        seqs=picked.seqs,
        worker_id=picked.request.worker_id,
        worker_ids=picked.owners(),
        lease_ttl_us=picked.request.lease_ttl_us,
        overrun_us=picked.request.overrun_us,
        picked_at=picked.picked_at,
    )
    if picked.keyed:
        tokens = Counter(job.name for job in picked.keyed if job.tokens is not None)
        if tokens:
            yield each("take_tokens", name=list(tokens), tokens=list(tokens.values()))
        yield from admit(dict.fromkeys((job.name for job in picked.keyed), 0))


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
