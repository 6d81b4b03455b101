"""What goes into a submit and what comes out: drafts in all-or-nothing units, and answers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import msgspec

from euterpe.model.errors import InvalidInput
from euterpe.model.job import JobRow
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import rfc3339
from euterpe.model.submitting.submission import Submission

_VERSION_4: Final = bytes(0x40 | octet & 0x0F for octet in range(256))
_VARIANT: Final = bytes(0x80 | octet & 0x3F for octet in range(256))
_VARIANT_DIGITS: Final = {digit: f"{0x8 | int(digit, 16) & 0x3:x}" for digit in "0123456789abcdef"}
_PLACES: Final = [place for place in range(36) if place not in (8, 13, 18, 23)]
"""Where the digits of an id stand between its dashes."""
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

AS_SAID: Final = (
    "requester_id", "queue", "type", "payload_format", "max_attempts", "run_at", "delay_us", "lifetime_us",
    "execution_timeout_us", "visibility_us", "correlation_id", "callback_url", "callback_events", "replay_of",
    "concurrency_key", "concurrency_limit",
)  # fmt: skip
"""Columns that take a submission's word as it is."""
_NAMES: Final = ("priority", "stages", "retry_policy", "tags", *AS_SAID)
_read: Final = attrgetter("priority", "stages_json", "retry_json", "tags_json", *AS_SAID)


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A submission with the id the system gave it."""

    id: str
    submission: Submission


class Parent(msgspec.Struct, frozen=True):
    """The running claim that spawns jobs. `in_time`: an HTTP worker's, which is over with its deadline."""

    job_id: str
    claim_version: int
    in_time: bool = False


class JobKind:
    """What jobs share that differ in their payloads alone: each is this submission with its own payload. A job type
    makes its usual kind once."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission

    @cached_property
    def columns(self) -> dict[str, Any]:
        """What all their rows have in common, by column. It is read for every submit, so it is written once."""
        return dict(zip(_NAMES, _read(self.submission), strict=True))


class Unit(msgspec.Struct, frozen=True):
    """Jobs that are stored together or not at all. `parent` is the running claim that spawns them; `key` makes the
    whole unit idempotent. `kind` is known where all are alike."""

    drafts: tuple[Draft, ...]
    key: str | None = None
    parent: Parent | None = None
    kind: JobKind | None = None

    @property
    def said(self) -> Sequence[Submission]:
        """What is said of its jobs, payloads aside: of all at once where they are alike."""
        return (self.kind.submission,) if self.kind is not None else [draft.submission for draft in self.drafts]


def edges_of(unit: Unit) -> int:
    """How many dependencies its jobs name."""
    if unit.kind is not None:
        return len(unit.drafts) * len(unit.kind.submission.depends_on)
    return sum(len(draft.submission.depends_on) for draft in unit.drafts)


def check_children(unit: Unit) -> None:
    """A job that is kept for its unique key may be anybody's, so that a fan-in on the parent would not wait for it."""
    if any(submission.unique_key is not None for submission in unit.said):
        why = "is not for a child: a fan-in would not wait for another's job; give it an idempotency_key, or submit it"
        raise InvalidInput("unique_key", why)


class SubmitResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
        """What is stored for replays and sent over HTTP: the answer without the replay mark."""
        document = msgspec.structs.asdict(self)
        del document["replayed"]
        if self.expected_us is None:
            del document["expected_us"]
        return msgspec.json.encode(document)

    @classmethod
    def of(cls, job: JobRow, *, replayed: bool = False) -> SubmitResult:
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
    def replay(cls, response: bytes) -> SubmitResult:
        return msgspec.structs.replace(msgspec.json.decode(response, type=cls), replayed=True)


def new_ids(count: int) -> list[str]:
    """Random UUIDs of version 4: an id tells nothing of when its job was submitted, or how many others there are.

    One read of the system's randomness serves a whole batch, and one pass over all ids places each of their digits."""
    if count == 1:
        digits = os.urandom(16).hex()
        variant = _VARIANT_DIGITS[digits[16]]
        return [f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"]
    noise = bytearray(os.urandom(16 * count))
    noise[6::16] = noise[6::16].translate(_VERSION_4)
    noise[8::16] = noise[8::16].translate(_VARIANT)
    digits_of_all = noise.hex().encode()
    ids = bytearray(b"-" * 36 + b" ") * count
    for digit, place in enumerate(_PLACES):
        ids[place::37] = digits_of_all[digit::32]
    return ids.decode().split()


def as_stored(given_id: str) -> str | None:
    """The form in which ids are stored; None for text that can be no id, which a database might choke on."""
    return given_id.lower() if _ID.fullmatch(given_id) else None


def drafts_of(submissions: Sequence[Submission]) -> tuple[Draft, ...]:
    return tuple(map(Draft, new_ids(len(submissions)), submissions))
