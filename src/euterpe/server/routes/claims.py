"""A claim as a worker sees it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from euterpe.model.job import Claim
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import rfc3339
from euterpe.ports import Address
from euterpe.wire.worker import ClaimedJob, OneClaimed, StreamRef, UniformJobs

_SECOND_US: Final = 1_000_000


def one_of_many(claim: Claim, message: Address | None) -> ClaimedJob:
    return ClaimedJob(**_fields(claim, message))


def the_only_one(claim: Claim, message: Address | None) -> OneClaimed:
    return OneClaimed(claimed=True, **_fields(claim, message))


def grouped(claims: Iterable[Claim]) -> list[UniformJobs]:
    """In their order; those that stand side by side and differ in little share what they have in common."""
    groups: list[UniformJobs] = []
    first: Claim | None = None
    for claim in claims:
        if first is not None and _are_uniform(first, claim):
            job = claim.job
            payload = _json_or_base64(job.payload, job.payload_format)
            groups[-1].others.append((job.id, claim.lease.token or "", payload))
        else:
            first = claim
            groups.append(UniformJobs(one_of_many(claim, None), []))
    return groups


def _are_uniform(first: Claim, claim: Claim) -> bool:
    """One comparison of all that a job has, in C: neighbours of a chunk share the very same values."""
    job = claim.job
    if claim.lease.expires_at != first.lease.expires_at:
        return False
    same = replace(first.job, seq=job.seq, id=job.id, payload=job.payload, has_dependents=job.has_dependents)
    return same == job


def _fields(claim: Claim, message: Address | None) -> dict[str, Any]:
    job, lease = claim.job, claim.lease
    ttl_s = (lease.expires_at - (job.started_at or 0)) / _SECOND_US
    attempt_id = lease.attempt_id
    fields: dict[str, Any] = {
        "job_id": job.id,
        "attempt_id": attempt_id,
        "lease_token": lease.token,
        # Without Redis Streams there is no message; the attempt's id stands in, stable and used once.
        "stream": StreamRef(*message) if message is not None else StreamRef(job.queue, attempt_id),
        "queue": job.queue,
        "payload": _json_or_base64(job.payload, job.payload_format),
        "lease_ttl_seconds": ttl_s,
        "heartbeat_interval_seconds": ttl_s / 3,
        "type": job.type,
        "attempt": job.attempt_count,
        "max_attempts": job.max_attempts,
        "timeout_seconds": job.execution_timeout_us / _SECOND_US,
        "lease_expires_at": rfc3339(lease.expires_at),
        "priority": PRIORITY_NAMES[job.priority],
        "created_at": rfc3339(job.created_at),
        "previous_attempt_id": job.previous_attempt_id,
        "correlation_id": job.correlation_id,
        "requester": job.requester_id,
    }
    if job.payload_format != "json":
        fields["payload_format"] = job.payload_format
    if job.tags_json:
        fields["tags"] = job.tags
    if job.depends_on:
        fields["depends_on"] = list(job.depends_on)
    if job.stages_json:
        fields["stages"] = list(job.stages)
    if job.checkpoint:
        form = "bytes" if job.checkpoint[:1] == b"b" else "json"
        fields["checkpoint"] = _json_or_base64(job.checkpoint[1:], form)
        fields["checkpoint_format"] = form
    if job.error is not None:
        fields["lost_attempts"], fields["unfit_claims"] = job.lost_attempts, job.times_left
    return fields


def _json_or_base64(stored: bytes, form: str) -> msgspec.Raw | dict[str, bytes]:
    return msgspec.Raw(stored) if form == "json" else {"base64": stored}
