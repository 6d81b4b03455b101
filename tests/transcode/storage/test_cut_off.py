"""An upload and a local put, cancelled at each point where they wait: whole or not there, and nothing left behind."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from euterpe.egress.target import EgressPolicy
from euterpe.transcode.schema.locations import STAGING, AccessKeys, LocalDestination, S3Destination
from euterpe.transcode.storage.local import LocalWriter
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.transcode.storage.ports import UploadAttempt
from euterpe.transcode.storage.s3.objects import S3Writer, connecting
from tests.cancellation.cutting import When, cut_off
from tests.servers.s3 import RcloneServer
from tests.transcode.storage.parts import JOB, MIB, QUICK, Claim, JobCredentials, MemoryLedger, random_file, sha256_of

WAYS = pytest.mark.parametrize("when", list(When), ids=lambda when: when.value)
MOST_POINTS = 200


@WAYS
async def test_an_upload_that_is_cut_off_anywhere_leaves_nothing_half_done(
    rclone: RcloneServer, tmp_path: Path, when: When
) -> None:
    expected = random_file(tmp_path / "a", 2 * MIB + 5)
    bucket = rclone.data / f"b{secrets.token_hex(6)}"
    bucket.mkdir()
    keys = AccessKeys(access_key_id=rclone.access_key_id, secret_access_key=rclone.password)
    for point in range(MOST_POINTS):
        ledger = MemoryLedger()
        writer = S3Writer(
            S3Destination(bucket=bucket.name, endpoint=rclone.url),
            UploadAttempt(JOB, 1),
            JobCredentials(keys),
            ledger,
            connecting(EgressPolicy(allow_loopback=True)),
            QUICK,
            single_put_limit=MIB,
            part_size=MIB,
        )
        put = writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)
        was_cut = await cut_off(put, point, when)
        await writer.close()
        there = bucket / "a"
        assert ledger.rows == [], point
        assert not there.exists() or sha256_of(there) == expected, point
        if not was_cut:
            assert there.exists()
            assert point > 5
            return
        there.unlink(missing_ok=True)
    pytest.fail("it never came to its end")


@WAYS
async def test_a_local_put_that_is_cut_off_anywhere_leaves_nothing_half_done(tmp_path: Path, when: When) -> None:
    expected = random_file(tmp_path / "a", 100_000)
    root = tmp_path / "root"
    for point in range(MOST_POINTS):
        writer = LocalWriter(LocalDestination(prefix="out/"), UploadAttempt(JOB, 1), LocalRoot(root))
        was_cut = await cut_off(writer.put(tmp_path / "a", "a", content_type="", fence=Claim().fence), point, when)
        there = root / "out/a"
        assert sorted(path.name for path in (root / STAGING / JOB).iterdir()) in ([], ["fence"]), point
        assert not there.exists() or sha256_of(there) == expected, point
        if not was_cut:
            assert there.exists()
            return
        there.unlink(missing_ok=True)
    pytest.fail("it never came to its end")
