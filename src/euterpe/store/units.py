"""What goes into a submit and what comes out: drafts in all-or-nothing units, and receipts."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.submission import Submission

_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Draft(msgspec.Struct, frozen=True):
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


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a submission."""

    job_id: str
    type: str
    queue: str
    state: str
    priority: str
    created_at: str
    correlation_id: str | None = None
    replayed: bool = False

    @property
    def response(self) -> bytes:
        """What is stored for replays and sent over HTTP: the receipt without the replay mark."""
        said = msgspec.structs.asdict(self)
        del said["replayed"]
        return msgspec.json.encode(said)

    @classmethod
    def replay(cls, response: bytes) -> Receipt:
        return msgspec.structs.replace(msgspec.json.decode(response, type=cls), replayed=True)


def new_ids(count: int) -> list[str]:
    """UUIDs of version 4 that begin with the time in milliseconds, the other 74 bits random.

    Jobs that are submitted together are settled together, so they should be neighbours in the index of ids too; ids
    that are random all over touch a page of it each. One read of the system's randomness serves a whole batch."""
    time_ms = f"{time.time_ns() // 1_000_000:012x}"[-12:]
    front = f"{time_ms[:8]}-{time_ms[8:]}-4"
    noise = os.urandom(10 * count).hex()
    return [
        f"{front}{noise[i : i + 3]}-{_VARIANT[noise[i + 3]]}{noise[i + 4 : i + 7]}-{noise[i + 7 : i + 19]}"
        for i in range(0, 20 * count, 20)
    ]


def as_stored(given_id: str) -> str | None:
    """The form in which ids are stored; None for text that can be no id, which a database might choke on."""
    return given_id.lower() if _ID.fullmatch(given_id) else None


def drafts_of(submissions: Sequence[Submission]) -> tuple[Draft, ...]:
    return tuple(map(Draft, new_ids(len(submissions)), submissions))
