"""Stores that answer before they have read, never read, or speak no HTTP."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from random import Random

import pytest

from euterpe.egress.target import EgressPolicy
from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import AccessKeys, S3Destination
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.http import StorageHttp, Timing
from euterpe.transcode.storage.ports import UploadAttempt
from euterpe.transcode.storage.retrying import Retries
from euterpe.transcode.storage.s3.objects import S3Writer, connecting
from tests.transcode.storage.parts import JOB, MIB, QUICK, Claim, JobCredentials, MemoryLedger, no_wait, random_file
from tests.webhook.canary import Canary, Names, serving

REFUSAL = b"<Error><Code>ExpiredToken</Code></Error>"
HEAD = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/xml\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
KEYS = AccessKeys(access_key_id="a", secret_access_key="b")
ONCE = Retries(tries=1, sleep=no_wait, rng=Random(1))


def writer(
    canary: Canary, credentials: JobCredentials, retries: Retries = QUICK, timing: Timing | None = None
) -> S3Writer:
    return S3Writer(
        S3Destination(bucket="bkt", endpoint=canary.url("")),
        UploadAttempt(JOB, 1),
        credentials,
        MemoryLedger(),
        connecting(EgressPolicy(allow_loopback=True), timing=timing),
        retries,
    )


async def put(target: S3Writer, path: Path) -> StorageError:
    with pytest.raises(StorageError) as caught:
        await target.put(path, "a", content_type="x/y", fence=Claim().fence)
    await target.close()
    return caught.value


async def test_a_refusal_that_comes_before_the_body_is_read_after_all(tmp_path: Path) -> None:
    """The first time the line is cut with the body still on its way; asked to wait, the store gives its reason."""
    random_file(tmp_path / "a", 8 * MIB)
    asked: list[bytes] = []

    async def refuse_early(canary: Canary, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.lower())
        if b"expect: 100-continue" in head.lower():
            out.write(HEAD % len(REFUSAL) + REFUSAL)
            await out.drain()
        out.transport.abort() if b"expect" not in head.lower() else out.close()

    credentials = JobCredentials(KEYS)
    async with serving(refuse_early) as canary:
        error = await put(writer(canary, credentials), tmp_path / "a")
    assert error.code == "credentials.refresh_failed"
    assert [reason for _, _, reason in credentials.renewals] == ["expired"]
    assert b"expect" not in asked[0]


async def test_a_store_that_stops_reading_is_left_before_long(tmp_path: Path) -> None:
    random_file(tmp_path / "a", 15 * MIB)
    over = asyncio.Event()

    async def never_read(canary: Canary, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await over.wait()
        out.transport.abort()

    async with serving(never_read) as canary:
        error = await put(writer(canary, JobCredentials(KEYS), ONCE, Timing(idle_s=0.3)), tmp_path / "a")
        over.set()
    assert (error.code, error.category) == ("storage.timeout", Category.TIMEOUT)


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"])
async def test_what_is_no_http_is_a_broken_line(tmp_path: Path, answer: bytes) -> None:
    random_file(tmp_path / "a", 10)

    async def babble(canary: Canary, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        out.write(answer)
        await out.drain()
        out.close()

    async with serving(babble) as canary:
        error = await put(writer(canary, JobCredentials(KEYS), ONCE), tmp_path / "a")
    assert (error.code, error.category) == ("storage.disconnected", Category.TEMPORARY)


async def test_the_threads_that_look_up_names_end_with_the_store_and_a_shared_resolver_does_not(tmp_path: Path) -> None:
    shared = Names(default=("127.0.0.1",))
    policy = EgressPolicy(allow_loopback=True)
    async with serving() as canary:
        for resolver in (None, shared):
            http = StorageHttp(canary.url("", host="localhost"), policy, stage=Stage.FETCHING, resolver=resolver)
            assert (await http.ask("GET", "/a", {})).status == 204
            await http.close()
            looking = [thread for thread in threading.enumerate() if thread.name.startswith("euterpe-dns")]
            for thread in looking:
                thread.join(5)
            assert not [thread for thread in looking if thread.is_alive()]
    assert await shared.resolve("localhost", 80) == ("127.0.0.1",)


async def test_nobody_at_home_is_worth_a_retry(tmp_path: Path) -> None:
    random_file(tmp_path / "a", 10)
    async with serving() as canary:
        target = writer(canary, JobCredentials(KEYS), ONCE)
    error = await put(target, tmp_path / "a")
    assert (error.code, error.category) == ("storage.unreachable", Category.TEMPORARY)
