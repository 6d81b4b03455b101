"""All of it at once: a job in a database, a real S3, tokens that run out, a requester that sends fresh ones."""

from __future__ import annotations

import asyncio
import secrets as random
from pathlib import Path
from typing import Any

import pytest

from euterpe.egress.client import Egress
from euterpe.egress.target import EgressPolicy
from euterpe.model.errors import StaleLease
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.credentials.provider import CredentialProvider, RefreshPolicy
from euterpe.transcode.credentials.refresh import RefreshCalls
from euterpe.transcode.credentials.repository import CredentialStore, SqlUploads, claim_fence
from euterpe.transcode.credentials.update import update_credentials
from euterpe.transcode.handler.places import Places
from euterpe.transcode.schema.locations import AccessKeys, CredentialSet, Locations, S3Destination, S3Source
from euterpe.transcode.storage.ports import UploadAttempt
from euterpe.transcode.storage.s3.objects import S3Writer, connecting
from tests.conformance.acts import release, take_one, taken
from tests.servers.s3 import RcloneServer
from tests.transcode.credentials.requester import requester
from tests.transcode.credentials.samples import REQUESTER
from tests.transcode.storage.gate import Gate, Token, gate_to
from tests.transcode.storage.parts import MIB, random_file, sha256_of

OPEN = EgressPolicy(allow_loopback=True)


def keys_of(rclone: RcloneServer, token: str) -> dict[str, str]:
    return {
        "access_key_id": rclone.access_key_id,
        "secret_access_key": rclone.password,
        "session_token": token,
    }


def places(gate: Gate, bucket: str) -> Locations:
    return Locations(
        source=S3Source(bucket=bucket, key="in.flac", endpoint=gate.url),
        destination=S3Destination(bucket=bucket, prefix="out/", endpoint=gate.url),
    )


async def test_a_job_is_fetched_and_uploaded_with_credentials_that_run_out_twice(
    jobs: SqlStore, credentials: CredentialStore, rclone: RcloneServer, tmp_path: Path
) -> None:
    bucket = f"b{random.token_hex(6)}"
    (rclone.data / bucket).mkdir()
    expected = random_file(rclone.data / bucket / "in.flac", 18 * MIB)
    async with gate_to(rclone.url) as gate, requester() as receiver, Egress(OPEN) as egress:
        gate.tokens = {"t1": Token(expires_at=0), "t2": Token(uses=3), "t3": Token()}

        async def put(document: dict[str, Any]) -> None:
            version = document["credential_version"]
            keys = keys_of(rclone, f"t{version + 1}")
            body = {"credentials": {"source": keys, "destination": keys}, "refresh_id": document["refresh_id"]}
            await update_credentials(credentials, document["job_id"], REQUESTER, f'"{version}"', body, OPEN, 0)

        receiver.on_call = put
        claim = await taken(jobs)
        first = AccessKeys(**keys_of(rclone, "t1"))  # type: ignore[arg-type]  # all of them are text
        locations = places(gate, bucket)
        secrets = CredentialSet(source=first, destination=first)
        await credentials.create(claim.job.id, REQUESTER, locations, secrets, receiver.url)

        attempt = UploadAttempt(claim.job.id, claim.job.claim_version)
        calls = RefreshCalls(egress, receiver.secrets_of, lambda job_id: f"https://api.example/transcode/{job_id}")
        provider = CredentialProvider(attempt, credentials, calls, RefreshPolicy(poll_s=0.01, retry_s=0.01))
        uploads = SqlUploads(jobs.engine)
        storage = Places(OPEN, tmp_path, uploads)
        source = storage.source(locations.source, provider, "local")
        fetched = await source.fetch(tmp_path / "source", max_bytes=18 * MIB)
        destination = storage.destination(locations.destination, attempt, provider, "local")
        fence = claim_fence(jobs.engine, attempt)
        stored = await destination.put(tmp_path / "source", "a.flac", content_type="audio/flac", fence=fence)
        assert fetched.sha256 == stored.sha256 == expected == sha256_of(rclone.data / bucket / "out/a.flac")
        assert [call["credential_version"] for call in receiver.calls] == [1, 2]
        assert await uploads.left_by_others(UploadAttempt(claim.job.id, 99)) == []
        for one in (source, destination, provider):
            await one.close()


async def test_a_worker_that_lost_its_job_in_the_middle_of_an_upload_leaves_the_key_to_the_next(
    jobs: SqlStore, credentials: CredentialStore, rclone: RcloneServer, tmp_path: Path
) -> None:
    bucket = f"b{random.token_hex(6)}"
    (rclone.data / bucket).mkdir()
    random_file(tmp_path / "old", 2 * MIB)
    newer = random_file(tmp_path / "new", 2 * MIB)
    async with gate_to(rclone.url) as gate, requester() as receiver, Egress(OPEN) as egress:
        claim = await taken(jobs)
        keys = AccessKeys(**keys_of(rclone, "t"))  # type: ignore[arg-type]  # all of them are text
        locations = places(gate, bucket)
        await credentials.create(claim.job.id, REQUESTER, locations, CredentialSet(source=keys, destination=keys), None)
        calls = RefreshCalls(egress, receiver.secrets_of, lambda job_id: job_id)

        def writer(attempt: UploadAttempt) -> S3Writer:
            provider = CredentialProvider(attempt, credentials, calls)
            assert isinstance(locations.destination, S3Destination)
            return S3Writer(
                locations.destination, attempt, provider, SqlUploads(jobs.engine), connecting(OPEN),
                single_put_limit=MIB, part_size=MIB,
            )  # fmt: skip

        old = UploadAttempt(claim.job.id, claim.job.claim_version)
        stale = writer(old)
        gate.hold = held = asyncio.Event()
        gate.held = lambda seen: seen.query.get("partNumber") == "2"
        fence = claim_fence(jobs.engine, old)
        late = asyncio.create_task(stale.put(tmp_path / "old", "a", content_type="x/y", fence=fence))
        await gate.reached.wait()
        gate.hold = None
        await release(jobs, claim)
        again = await take_one(jobs)
        current = UploadAttempt(again.job.id, again.job.claim_version)
        fresh = writer(current)
        assert await fresh.discard_leftovers() == 1
        await fresh.put(tmp_path / "new", "a", content_type="x/y", fence=claim_fence(jobs.engine, current))
        held.set()
        with pytest.raises(StaleLease):
            await late
        assert sha256_of(rclone.data / bucket / "out/a") == newer
        for one in (stale, fresh):
            await one.close()
