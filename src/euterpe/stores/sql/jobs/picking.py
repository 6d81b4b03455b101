"""A claim on SQLite: its one writer may look first and write then; in one statement, it would hand out row by row."""

from __future__ import annotations

from collections.abc import Iterator
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

_numbers = msgspec.json.Decoder(list[int])
_texts = msgspec.json.Decoder(list[str])


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
    is_simple: bool
    """No event to write, no concurrency key to hold."""
    fresh: FreshJobs | None
    """The jobs themselves, where all came along."""

    @property
    def is_plain(self) -> bool:
        """Nothing is left to do in the transaction once these are taken."""
        return self.fresh is not None and self.is_simple

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
        return jobs

    def claims(self) -> list[Claim]:
        return claims_of(self.jobs())


def claims_of(jobs: list[JobRow]) -> list[Claim]:
    return [Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)) for job in jobs]


def pick(request: ClaimRequest, queue: str) -> Program[Picked]:
    """For a worker that asks for more than it can begin: up to the first behind the limit that cannot wait."""
    asked = {"queue": queue, "types": None if request.types is None else list(request.types), "small": SMALL_BYTES}
    if not request.prefetch:
        ((seqs, size, picked_at, is_simple, *fresh),) = yield one("pick", **asked, limit=request.limit)
        return _picked(request, queue, seqs, size, picked_at, is_simple, fresh)
    ((seqs, size, picked_at, is_simple, *fresh, cannot_wait),) = yield one(
        "pick_ahead", **asked, limit=request.total, prefetch_types=list(request.prefetch_types)
    )
    if cannot_wait != "[]":
        picked, held_up = _numbers.decode(seqs), set(_numbers.decode(cannot_wait))
        ((can_wait,),) = yield one("may_wait_by_key", seqs=cannot_wait, prefetch_types=list(request.prefetch_types))
        held_up.difference_update(_numbers.decode(can_wait))
        end = next((i for i in range(request.limit, len(picked)) if picked[i] in held_up), None)
        seqs = msgspec.json.encode(picked[:end]).decode()
    return _picked(request, queue, seqs, size, picked_at, is_simple, fresh)


def _picked(
    request: ClaimRequest, queue: str, seqs: str, size: int, picked_at: int, is_simple: int | None, fresh: list[str]
) -> Picked:
    came_along = None if fresh[-1] is None else FreshJobs(*fresh)
    return Picked(queue, request.worker_id, request.lease_ttl_us, seqs, size, picked_at, bool(is_simple), came_along)


def take(picked: Picked) -> Program[None]:
    yield one(
        "take",
        seqs=picked.seqs,
        worker_id=picked.worker_id,
        lease_ttl_us=picked.lease_ttl_us,
        picked_at=picked.picked_at,
    )


def taken_jobs(picked: Picked) -> Program[list[JobRow]]:
    """Take them, and read those that did not come along."""
    if picked.seqs == "[]":
        return []
    yield from take(picked)
    if picked.fresh is not None:
        return picked.jobs()
    jobs = jobs_from((yield one("taken_large" if picked.size >= PACKED_LIMIT else "taken", seqs=picked.seqs)))
    sort_by_urgency(jobs)
    return jobs
