"""Writing to a real S3: whole or not at all, part by part, under credentials that run out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.storage.errors import StorageError
from euterpe.transcode.storage.ports import OpenUpload, UploadAttempt
from euterpe.transcode.storage.s3.parts import MAX_PARTS, part_size_for
from tests.transcode.storage.conftest import S3Place
from tests.transcode.storage.gate import Fault, Seen, Token
from tests.transcode.storage.parts import JOB, MIB, Claim, JobCredentials, MemoryLedger, random_file, sha256_of

BIG = 2 * MIB + 3


def is_part(seen: Seen) -> bool:
    return seen.method == "PUT" and "partNumber" in seen.query


def is_complete(seen: Seen) -> bool:
    return seen.method == "POST" and "uploadId" in seen.query


def files_in(place: S3Place) -> list[str]:
    assert place.folder is not None
    return sorted(str(path.relative_to(place.folder)) for path in place.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [0, 1, 100_000, BIG])
async def test_an_output_arrives_whole(place: S3Place, tmp_path: Path, size: int) -> None:
    expected = random_file(tmp_path / "a", size)
    ledger, claim, moved = MemoryLedger(), Claim(), list[int]()
    writer = place.writer(ledger=ledger)
    stored = await writer.put(
        tmp_path / "a", "sub/ä b.mp3", content_type="audio/mpeg", fence=claim.fence, progress=moved.append
    )
    await writer.close()
    assert (stored.key, stored.size, stored.sha256) == ("out/sub/ä b.mp3", size, expected)
    assert place.folder is not None
    assert sha256_of(place.folder / "out/sub/ä b.mp3") == expected
    assert (claim.checks, ledger.rows, moved[-1]) == (1, [], size)


async def test_an_upload_goes_on_with_fresh_credentials_part_by_part(place: S3Place, tmp_path: Path) -> None:
    expected = random_file(tmp_path / "a", 6 * MIB)
    place.gate.tokens = {"t1": Token(uses=2), "t2": Token(uses=2), "t3": Token()}
    credentials = JobCredentials(place.token("t1"), fresh=[place.token("t2"), place.token("t3")])
    writer = place.writer(credentials)
    stored = await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)
    await writer.close()
    assert stored.sha256 == expected
    assert place.folder is not None
    assert sha256_of(place.folder / "out/a") == expected
    assert [seen for _, seen, _ in credentials.renewals] == [1, 2]
    assert place.gate.count("POST", uploads="") == 1
    taken = [seen.query["partNumber"] for seen in place.gate.seen if is_part(seen) and seen.status == 200]
    assert sorted(taken) == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("status", [423, 429, 500, 502, 503, 504])
async def test_a_part_that_fails_is_sent_again_and_no_other(place: S3Place, tmp_path: Path, status: int) -> None:
    expected = random_file(tmp_path / "a", BIG)
    place.gate.faults = [Fault(lambda seen: seen.query.get("partNumber") == "2", times=2, status=status)]
    writer = place.writer()
    assert (await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)).sha256 == expected
    await writer.close()
    sent = [seen.query["partNumber"] for seen in place.gate.seen if is_part(seen)]
    assert sorted(sent) == ["1", "2", "2", "2", "3"]


@pytest.mark.parametrize("fault", ["cut on the way", "answer lost"])
async def test_a_line_that_breaks_costs_one_part(place: S3Place, tmp_path: Path, fault: str) -> None:
    expected = random_file(tmp_path / "a", BIG)
    when = lambda seen: seen.query.get("partNumber") == "2"  # noqa: E731
    broken = Fault(when, cut_upload_after=MIB // 2) if fault == "cut on the way" else Fault(when, lose_answer=True)
    place.gate.faults = [broken]
    writer = place.writer()
    assert (await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)).sha256 == expected
    await writer.close()
    assert place.folder is not None
    assert sha256_of(place.folder / "out/a") == expected
    assert place.gate.seen[-1].status == 200


@pytest.mark.parametrize("small", [True, False])
async def test_a_completion_whose_answer_was_lost_is_found_out(
    conditional: S3Place, tmp_path: Path, small: bool
) -> None:
    expected = random_file(tmp_path / "a", 1000 if small else BIG)
    place, ledger = conditional, MemoryLedger()
    last = (lambda seen: seen.method == "PUT") if small else is_complete
    place.gate.faults = [Fault(last, lose_answer=True)]
    writer = place.writer(ledger=ledger)
    stored = await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)
    assert (stored.sha256, ledger.rows) == (expected, [])
    await writer.close()


async def test_a_completion_that_fails_behind_its_200_is_no_success(place: S3Place, tmp_path: Path) -> None:
    random_file(tmp_path / "a", BIG)
    body = b"<?xml version='1.0'?>\n  <Error><Code>InternalError</Code></Error>"
    place.gate.faults = [Fault(is_complete, times=9, body=body)]
    writer = place.writer()
    with pytest.raises(StorageError) as caught:
        await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)
    await writer.close()
    assert caught.value.category is Category.TEMPORARY


async def test_an_upload_that_fails_leaves_nothing_behind(place: S3Place, tmp_path: Path) -> None:
    random_file(tmp_path / "a", BIG)
    place.gate.faults = [Fault(lambda seen: seen.query.get("partNumber") == "3", times=9, status=400, code="BadDigest")]
    ledger = MemoryLedger()
    writer = place.writer(ledger=ledger)
    with pytest.raises(StorageError) as caught:
        await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)
    await writer.close()
    assert (caught.value.http_status, caught.value.store_code) == (400, "BadDigest")
    assert place.gate.seen[-1].method == "DELETE"
    assert place.gate.seen[-1].status == 204
    assert (files_in(place), ledger.rows) == ([], [])


async def test_what_changes_on_the_way_is_refused_by_the_store(place: S3Place, tmp_path: Path) -> None:
    """The body is signed with its hash: a file that is overwritten after it was hashed does not get in."""
    path = tmp_path / "a"
    random_file(path, 1000)

    def overwrite() -> None:
        path.write_bytes(bytes(1000))

    claim = Claim(when_asked=overwrite)
    writer = place.writer()
    with pytest.raises(StorageError) as caught:
        await writer.put(path, "a", content_type="x/y", fence=claim.fence)
    await writer.close()
    assert caught.value.http_status == 400
    assert files_in(place) == []


async def test_a_cancelled_upload_is_aborted_wherever_it_stands(place: S3Place, tmp_path: Path) -> None:
    """Cancelled while each of its requests is under way."""
    random_file(tmp_path / "a", BIG)
    for number in range(5):
        ledger = MemoryLedger()
        writer = place.writer(ledger=ledger)
        place.gate.seen.clear()
        place.gate.reached.clear()
        place.gate.hold = asyncio.Event()
        place.gate.held = lambda seen, number=number: len(place.gate.seen) > number  # type: ignore[misc]
        putting = asyncio.create_task(
            writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence), name=f"put {number}"
        )
        await place.gate.reached.wait()
        putting.cancel()
        place.gate.hold.set()
        place.gate.hold = None
        with pytest.raises(asyncio.CancelledError):
            await putting
        await writer.close()
        assert ledger.rows == [], number
        if number > 0:
            assert place.gate.seen[-1].method == "DELETE", number
    assert [name for name in files_in(place) if name != "out/a"] == []


async def test_the_next_attempt_aborts_what_a_killed_one_began(place: S3Place, tmp_path: Path) -> None:
    ledger = MemoryLedger()
    old = UploadAttempt(JOB, 1)
    for key in ("out/a", "out/b"):
        await ledger.opened(old, OpenUpload(key, "1"))
    writer = place.writer(ledger=ledger, version=2)
    assert await writer.discard_leftovers() == 2
    assert await writer.discard_leftovers() == 0
    await writer.close()
    assert [(seen.method, seen.key) for seen in place.gate.seen] == [("DELETE", "out/a"), ("DELETE", "out/b")]


async def test_copies_and_deletes_are_made_by_the_store(place: S3Place, tmp_path: Path) -> None:
    expected = random_file(tmp_path / "a", 1000)
    claim, writer = Claim(), place.writer()
    stored = await writer.put(tmp_path / "a", "a", content_type="x/y", fence=claim.fence)
    assert stored.etag is not None
    assert await writer.etag_at("out/a") == stored.etag
    assert await writer.etag_at("out/b c") is None
    await writer.copy("out/a", "b c", etag=stored.etag, fence=claim.fence)
    assert place.folder is not None
    assert sha256_of(place.folder / "out/b c") == expected
    for _ in range(2):
        await writer.delete("a")
    await writer.close()
    assert files_in(place) == ["out/b c"]


def test_no_size_needs_more_parts_than_a_store_takes() -> None:
    for size in (1, 10**9, 10**11, 5 * 1024**4):
        part = part_size_for(size)
        assert -(-size // part) <= MAX_PARTS
        assert part % MIB == 0


async def test_the_same_output_again_leaves_no_upload_open(conditional: S3Place, tmp_path: Path) -> None:
    random_file(tmp_path / "a", BIG)
    etags = set()
    for version in (1, 2):
        ledger = MemoryLedger()
        writer = conditional.writer(ledger=ledger, version=version)
        etags.add((await writer.put(tmp_path / "a", "a", content_type="x/y", fence=Claim(version).fence)).etag)
        open_uploads = await writer._client.ask("GET", "", query=[("uploads", "")])
        await writer.close()
        assert b"<UploadId>" not in open_uploads.body
        assert ledger.rows == []
    assert len(etags) == 1


async def test_a_staged_output_is_seen_by_nobody_until_it_is_published(place: S3Place, tmp_path: Path) -> None:
    expected = random_file(tmp_path / "a", 100_000)
    ledger = MemoryLedger()
    writer = place.writer(ledger=ledger)
    staged = await writer.stage(tmp_path / "a", "a", content_type="x/y", fence=Claim().fence)
    dropped = await writer.stage(tmp_path / "a", "b", content_type="x/y", fence=Claim().fence)
    assert files_in(place) == []
    assert len(ledger.rows) == 2
    await dropped.discard()
    stored = await staged.publish()
    await staged.discard()
    await writer.close()
    assert (stored.key, stored.sha256, ledger.rows) == ("out/a", expected, [])
    assert files_in(place) == ["out/a"]
