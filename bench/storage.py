"""A large file up to a real S3 (rclone, on this machine) and down again: rates, and how far memory grew.

python -m bench.storage --mb 1000
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from euterpe.egress.target import EgressPolicy
from euterpe.transcode.schema.locations import AccessKeys, S3Destination, S3Source
from euterpe.transcode.storage.ports import UploadAttempt
from euterpe.transcode.storage.s3.objects import S3SourceReader, S3Writer, connecting
from tests.servers.s3 import RcloneServer
from tests.transcode.storage.parts import JOB, MIB, Claim, JobCredentials, MemoryLedger, random_file


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def timed(what: str, work: Awaitable[object], size_mb: int) -> None:
    before, started, cpu_started = peak_mb(), time.perf_counter(), time.process_time()
    await work
    took, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    rates = f"{size_mb / took:6.0f} MB/s, {size_mb / cpu:6.0f} MB per CPU second"
    print(f"{what:10} {rates}, memory +{peak_mb() - before:.0f} MB")


async def measure(server: RcloneServer, folder: Path, size_mb: int) -> None:
    (server.data / "bench").mkdir()
    keys = JobCredentials(AccessKeys(access_key_id=server.access_key_id, secret_access_key=server.password))
    connect = connecting(EgressPolicy(allow_loopback=True))
    where = S3Destination(bucket="bench", endpoint=server.url)
    writer = S3Writer(where, UploadAttempt(JOB, 1), keys, MemoryLedger(), connect)
    reader = S3SourceReader(S3Source(bucket="bench", key="big", endpoint=server.url), keys, connect)
    random_file(folder / "small", 100)
    await writer.put(folder / "small", "small", content_type="x/y", fence=Claim().fence)
    random_file(folder / "big", size_mb * MIB)
    await timed("upload", writer.put(folder / "big", "big", content_type="x/y", fence=Claim().fence), size_mb)
    await timed("download", reader.fetch(folder / "back", max_bytes=size_mb * MIB), size_mb)
    await writer.close()
    await reader.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=1000, help="size of the file in MiB")
    size_mb = parser.parse_args().mb
    with RcloneServer() as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(server, Path(folder), size_mb))


if __name__ == "__main__":
    main()
