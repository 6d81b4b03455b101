"""A real S3 for each test process, a bucket for each test, and a gate in front of it."""

from __future__ import annotations

import secrets
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from euterpe.egress.target import EgressPolicy
from euterpe.transcode.schema.locations import AccessKeys, S3Destination, S3Source
from euterpe.transcode.storage.http import Timing
from euterpe.transcode.storage.ports import Credentials, UploadAttempt
from euterpe.transcode.storage.retrying import Retries
from euterpe.transcode.storage.s3.objects import S3SourceReader, S3Writer, connecting
from tests.servers.s3 import MotoServer, RcloneServer
from tests.transcode.storage.gate import Gate, gate_to
from tests.transcode.storage.parts import JOB, MIB, QUICK, JobCredentials, MemoryLedger

LOOPBACK = EgressPolicy(allow_loopback=True)


@pytest.fixture(scope="session")
def rclone() -> Iterator[RcloneServer]:
    with RcloneServer() as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoServer]:
    with MotoServer() as server:
        yield server


@dataclass
class S3Place:
    """A bucket behind a gate, and how to make readers and writers for it."""

    gate: Gate
    bucket: str
    keys: AccessKeys
    region: str
    folder: Path | None
    timing: Timing

    def token(self, name: str) -> AccessKeys:
        return AccessKeys(
            access_key_id=self.keys.access_key_id, secret_access_key=self.keys.secret_access_key, session_token=name
        )

    def writer(
        self,
        credentials: Credentials | None = None,
        ledger: MemoryLedger | None = None,
        version: int = 1,
        retries: Retries = QUICK,
        limit: int = MIB,
    ) -> S3Writer:
        return S3Writer(
            S3Destination(bucket=self.bucket, prefix="out/", endpoint=self.gate.url, region=self.region),
            UploadAttempt(JOB, version),
            credentials or JobCredentials(self.keys),
            MemoryLedger() if ledger is None else ledger,
            connecting(LOOPBACK, timing=self.timing),
            retries,
            single_put_limit=limit,
            part_size=MIB,
        )

    def reader(
        self,
        key: str,
        credentials: Credentials | None = None,
        etag: str | None = None,
        sha256: str | None = None,
        retries: Retries = QUICK,
    ) -> S3SourceReader:
        return S3SourceReader(
            S3Source(bucket=self.bucket, key=key, endpoint=self.gate.url, region=self.region, etag=etag, sha256=sha256),
            credentials or JobCredentials(self.keys),
            connecting(LOOPBACK, timing=self.timing),
            retries,
        )


@pytest.fixture
async def place(rclone: RcloneServer) -> AsyncIterator[S3Place]:
    """Over rclone: signatures are checked, objects are files in `folder`."""
    bucket = f"b{secrets.token_hex(6)}"
    folder = rclone.data / bucket
    folder.mkdir()
    keys = AccessKeys(access_key_id=rclone.access_key_id, secret_access_key=rclone.password)
    async with gate_to(rclone.url) as gate:
        yield S3Place(gate, bucket, keys, "auto", folder, Timing())


@pytest.fixture
async def conditional(moto: MotoServer) -> AsyncIterator[S3Place]:
    """Over moto: conditional writes."""
    bucket = f"b{secrets.token_hex(6)}"
    request = urllib.request.Request(f"{moto.url}/{bucket}", method="PUT")  # noqa: S310  # our own server
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310, ASYNC210  # likewise
    keys = AccessKeys(access_key_id="any", secret_access_key="any")
    async with gate_to(moto.url) as gate:
        yield S3Place(gate, bucket, keys, "us-east-1", None, Timing())
