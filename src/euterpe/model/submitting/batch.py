"""What goes into a submit and what comes out: drafts in all-or-nothing units, and receipts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.errors import InvalidInput
from euterpe.model.job import JobRow
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import rfc3339
from euterpe.model.submitting.submission import Submission

_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A submission with the id the system gave it."""

    id: str
    submission: Submission


class Parent(msgspec.Struct, frozen=True):
    """The running claim that spawns jobs. A claim over HTTP must show its token too."""

    job_id: str
    claim_version: int
    token_hash: bytes | None = None


class Unit(msgspec.Struct, frozen=True):
    """Jobs that are stored together or not at all. `parent` is the running claim that spawns them; `key` makes the
    whole unit idempotent."""

    drafts: tuple[Draft, ...]
    key: str | None = None
    parent: Parent | None = None


def check_children(unit: Unit) -> None:
    """A job that is kept for its unique key may be anybody's, so that a fan-in on the parent would not wait for it."""
    if any(draft.submission.unique_key is not None for draft in unit.drafts):
        why = "is not for a child: a fan-in would not wait for another's job; give it an idempotency_key, or submit it"
        raise InvalidInput("unique_key", why)


class Receipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a submission."""

    job_id: str
    type: str
    queue: str
    state: str
    priority: str
    created_at: str
    correlation_id: str | None = None
    expected_us: int | None = None
    replayed: bool = False

    @property
    def response(self) -> bytes:
        """What is stored for replays and sent over HTTP: the receipt without the replay mark."""
        document = msgspec.structs.asdict(self)
        del document["replayed"]
        if self.expected_us is None:
            del document["expected_us"]
        return msgspec.json.encode(document)

    @classmethod
    def of(cls, job: JobRow, *, replayed: bool = False) -> Receipt:
        """Of a job as it is now."""
        return cls(
            job_id=job.id,
            type=job.type,
            queue=job.queue,
            state=job.state,
            priority=PRIORITY_NAMES[job.priority],
            created_at=rfc3339(job.created_at) or "",
            correlation_id=job.correlation_id,
            replayed=replayed,
        )

    @classmethod
    def replay(cls, response: bytes) -> Receipt:
        return msgspec.structs.replace(msgspec.json.decode(response, type=cls), replayed=True)


def new_ids(count: int) -> list[str]:
    """Random UUIDs of version 4: an id tells nothing of when its job was submitted, or how many others there are.

    One read of the system's randomness serves a whole batch."""
    noise = os.urandom(16 * count).hex()
    return [
        f"{noise[i : i + 8]}-{noise[i + 8 : i + 12]}-4{noise[i + 13 : i + 16]}"
        f"-{_VARIANT[noise[i + 16]]}{noise[i + 17 : i + 20]}-{noise[i + 20 : i + 32]}"
        for i in range(0, 32 * count, 32)
    ]


def as_stored(given_id: str) -> str | None:
    """The form in which ids are stored; None for text that can be no id, which a database might choke on."""
    return given_id.lower() if _ID.fullmatch(given_id) else None


def drafts_of(submissions: Sequence[Submission]) -> tuple[Draft, ...]:
    return tuple(map(Draft, new_ids(len(submissions)), submissions))
