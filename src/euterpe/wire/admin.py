"""The words of operators over HTTP: what is paused, and which dead letters are thrown away."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from euterpe.wire.jobs import Name

PURGE_LIMIT = 1_000


class PauseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the two: a queue, or a job type."""

    queue: Name | None = None
    type: Name | None = None


class PausedDocument(msgspec.Struct, frozen=True):
    """A queue or a job type from which nothing is claimed."""

    kind: Literal["queue", "type"]
    name: str


class PausesDocument(msgspec.Struct, frozen=True):
    """Everything that is paused."""

    paused: list[PausedDocument]


class PurgeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead letters by their ids. All of them go, or none."""

    job_ids: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(min_length=1, max_length=PURGE_LIMIT)]


class PurgeAnswer(msgspec.Struct, frozen=True):
    """The dead letters that were there and are gone."""

    purged: list[str]
