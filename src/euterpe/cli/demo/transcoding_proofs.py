"""What the demo's transcode proved: each a look at the status document, the store's files and the requester's notes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from euterpe.cli.demo.processes import LEASE
from euterpe.cli.demo.proof import Proof
from euterpe.cli.demo.transcoding_steps import OUTPUTS, Media


def the_killed_encode_was_finished(media: Media) -> Proof:
    status = media.status
    return Proof(
        status["status"] == "succeeded" and status["attempt_count"] == 2,
        f"the transcode that lost its worker at {media.killed_at:g} % was finished by another, "
        f"{LEASE} of lease later: attempt {status['attempt_count']}",
    )


def refused_credentials_were_refreshed(media: Media) -> Proof:
    """The refresh receiver checked the signatures; only an advanced version lets a worker go on."""
    status, calls = media.status, media.refreshes
    reasons = ", ".join(str(event.payload["reason"]) for event in calls.events)
    return Proof(
        len(calls.events) == status["refresh_attempts"] == 2
        and not calls.refused
        and media.updates == [200, 200]
        and status["credential_version"] == 3,
        f"credentials ran out twice: the store refused {len(media.store.refused)} requests, {len(calls.events)} signed "
        f"calls asked for fresh ones ({reasons}), credential_version went from 1 to {status['credential_version']}",
    )


def the_upload_went_on(media: Media) -> Proof:
    store = media.store
    begun = store.uploads_begun
    return Proof(
        len(begun) == len(set(begun)) > 0 and "PUT part 2" in store.refused,
        f"the upload whose second part was refused went on with the fresh ones: {len(set(begun))} uploads were begun "
        f"{len(begun)} times, in the same attempt",
    )


def outputs_have_their_checksums(media: Media) -> Proof:
    outputs = media.status["outputs"] or []
    right = [_sha256(media.store.path_of(output["key"])) == output["sha256"] for output in outputs]
    return Proof(
        right == [True] * len(OUTPUTS),
        f"{sum(right)} of {len(OUTPUTS)} outputs lie in S3 with the checksum that the status tells",
    )


def nothing_is_left(media: Media) -> Proof:
    left = [path for path in (media.folder / "work").rglob("*") if path.is_file()]
    expected = {output["key"] for output in media.status["outputs"] or []}
    there = {str(path.relative_to(media.store.path_of(""))) for path in media.store.path_of("out").rglob("*")}
    return Proof(not left and there == expected, "no work file of either worker is left, and no half output")


def webhooks_were_signed(media: Media) -> Proof:
    types = [str(event.payload["type"]).removeprefix("transcode.") for event in media.webhooks.events]
    sequence = [int(event.payload["sequence"]) for event in media.webhooks.events]
    return Proof(
        sequence == sorted(sequence) and types[-1:] == ["succeeded"] and not media.webhooks.refused,
        f"its webhooks came signed and in order: {', '.join(types)}",
    )


def secrets_were_sealed(media: Media) -> Proof:
    count = 1 + len(media.store.issued)
    where = f": found in {', '.join(sorted(set(media.leaks)))}" if media.leaks else ""
    return Proof(
        not media.leaks,
        f"none of the {count} secrets was in the database, its WAL, a log or a work file, then or now{where}",
    )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "not there"


PROOFS: tuple[Callable[[Media], Proof], ...] = (
    the_killed_encode_was_finished,
    refused_credentials_were_refreshed,
    the_upload_went_on,
    outputs_have_their_checksums,
    nothing_is_left,
    webhooks_were_signed,
    secrets_were_sealed,
)
