"""Places and what opens them."""

from __future__ import annotations

from typing import Any

from euterpe.model.job import Claim
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.credentials.repository import CredentialStore
from euterpe.transcode.schema.locations import (
    AccessKeys,
    CredentialSet,
    Locations,
    PutUrlDestination,
    S3Destination,
    S3Source,
    SignedUrl,
    SignedUrlSource,
)
from euterpe.transcode.storage.ports import UploadAttempt
from tests.conformance.acts import taken

CANARY = "canary-7c1f9a-of-a-secret"
REQUESTER = LOCAL_REQUESTER
REFRESH_URL = "https://requester.example/refresh"

S3_PLACES = Locations(
    source=S3Source(bucket="in-bucket", key="a.flac", endpoint="https://s3.example.com"),
    destination=S3Destination(bucket="out-bucket", prefix="out/", endpoint="https://s3.example.com"),
)
URL_PLACES = Locations(
    source=SignedUrlSource(url="https://example.com/a.flac", sha256="0" * 64),
    destination=PutUrlDestination(urls={"mp3": "https://example.com/a.mp3"}),
)


def secrets(number: int = 1, expires_at: int | None = None) -> CredentialSet:
    keys = AccessKeys(
        access_key_id=f"AK{number}",
        secret_access_key=f"{CANARY}-{number}",
        session_token=f"{CANARY}-token-{number}",
        expires_at=expires_at,
    )
    return CredentialSet(source=keys, destination=keys)


def url_secrets() -> CredentialSet:
    return CredentialSet(
        source_url=SignedUrl(url=f"https://example.com/a.flac?sig={CANARY}"),
        put_urls={"mp3": SignedUrl(url=f"https://example.com/a.mp3?sig={CANARY}")},
    )


def update_body(number: int = 2, **more: Any) -> dict[str, Any]:
    keys = {"access_key_id": f"AK{number}", "secret_access_key": f"{CANARY}-{number}", "session_token": f"t{number}"}
    return {"credentials": {"source": dict(keys), "destination": dict(keys)}, **more}


async def running_job(
    jobs: SqlStore,
    credentials: CredentialStore,
    sealed: CredentialSet | None = None,
    refresh_url: str | None = REFRESH_URL,
    locations: Locations = S3_PLACES,
) -> tuple[Claim, UploadAttempt]:
    claim = await taken(jobs)
    await credentials.create(claim.job.id, claim.job.requester_id, locations, sealed or secrets(), refresh_url)
    return claim, UploadAttempt(claim.job.id, claim.job.claim_version)
