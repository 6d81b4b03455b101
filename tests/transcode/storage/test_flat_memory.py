"""100 MB up and down again through a process of its own, whose memory stays flat. 1 GB: `python -m bench.storage`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.servers.s3 import RcloneServer
from tests.transcode.storage.parts import MIB

SIZE = 100 * MIB
MOST_GROWTH = 48 * MIB

CODE = """
import asyncio, json, resource, sys
from pathlib import Path
from euterpe.transcode.schema.locations import AccessKeys, S3Destination, S3Source
from euterpe.transcode.storage.ports import UploadAttempt
from euterpe.transcode.storage.s3.objects import S3SourceReader, S3Writer, connecting
from euterpe.egress.target import EgressPolicy
from tests.transcode.storage.parts import JOB, Claim, JobCredentials, MemoryLedger, random_file

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main(url, key_id, secret, folder, size):
    folder, keys = Path(folder), JobCredentials(AccessKeys(access_key_id=key_id, secret_access_key=secret))
    connect = connecting(EgressPolicy(allow_loopback=True))
    writer = S3Writer(S3Destination(bucket="flat", endpoint=url), UploadAttempt(JOB, 1), keys, MemoryLedger(), connect)
    reader = S3SourceReader(S3Source(bucket="flat", key="big", endpoint=url), keys, connect)
    random_file(folder / "small", 100)
    await writer.put(folder / "small", "small", content_type="x/y", fence=Claim().fence)
    random_file(folder / "big", size)
    before = peak()
    stored = await writer.put(folder / "big", "big", content_type="x/y", fence=Claim().fence)
    sent = peak()
    fetched = await reader.fetch(folder / "back", max_bytes=size)
    assert stored.sha256 == fetched.sha256
    await writer.close()
    await reader.close()
    print(json.dumps({"sent": sent - before, "both": peak() - before}))

asyncio.run(main(*sys.argv[1:5], int(sys.argv[5])))
"""


def test_memory_stays_flat_both_ways(rclone: RcloneServer, tmp_path: Path) -> None:
    bucket = rclone.data / "flat"
    bucket.mkdir(exist_ok=True)
    command = [sys.executable, "-c", CODE, rclone.url, rclone.access_key_id, rclone.password, str(tmp_path), str(SIZE)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    (bucket / "big").unlink(missing_ok=True)
    assert answer.returncode == 0, answer.stderr
    grown = json.loads(answer.stdout)
    assert grown["sent"] < MOST_GROWTH, grown
    assert grown["both"] < MOST_GROWTH, grown
