"""The trace that a submission belongs to: its `traceparent` header travels with the job, as a tag."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from euterpe.model.submitting.submission import TAGS_LIMIT, TRACE_TAG, Submission
from euterpe.server.http.asgi import Request

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def traceparent_of(request: Request) -> str | None:
    """By the W3C rules a broken one is no reason to refuse anything."""
    header = (request.header(b"traceparent") or b"").decode("latin-1").strip()
    return header if _TRACEPARENT.fullmatch(header) else None


def with_parent(submission: Submission, traceparent: str | None) -> Submission:
    """What the submission itself says of its trace wins over the header."""
    if traceparent is None or _TRACEPARENT.fullmatch(submission.correlation_id or ""):
        return submission
    tags: Mapping[str, str] = submission.tags or {}
    if TRACE_TAG in tags or len(tags) >= TAGS_LIMIT:
        return submission
    return msgspec.structs.replace(submission, tags={**tags, TRACE_TAG: traceparent})
