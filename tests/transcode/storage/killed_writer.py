"""A worker of its own process that uploads one file and tells, part by part, how far it is; its parent kills it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from euterpe.egress.target import EgressPolicy
from euterpe.transcode.schema.locations import AccessKeys, S3Destination
from euterpe.transcode.storage.ports import OpenUpload, UploadAttempt
from euterpe.transcode.storage.s3.objects import S3Writer, connecting
from tests.transcode.storage.parts import JOB, MIB, Claim, JobCredentials


class FileLedger:
    """One line for each upload that was begun or ended."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _write(self, word: str, upload: OpenUpload) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps([word, upload.key, upload.upload_id]) + "\n")

    async def opened(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        self._write("opened", upload)

    async def closed(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        self._write("closed", upload)

    async def left_by_others(self, attempt: UploadAttempt) -> list[OpenUpload]:
        return []


async def main(endpoint: str, bucket: str, access_key_id: str, secret: str, path: str, ledger: str) -> None:
    writer = S3Writer(
        S3Destination(bucket=bucket, prefix="out/", endpoint=endpoint),
        UploadAttempt(JOB, 1),
        JobCredentials(AccessKeys(access_key_id=access_key_id, secret_access_key=secret)),
        FileLedger(Path(ledger)),
        connecting(EgressPolicy(allow_loopback=True)),
        single_put_limit=MIB,
        part_size=MIB,
    )
    print("begun", flush=True)
    await writer.put(Path(path), "a", content_type="x/y", fence=Claim().fence)
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
