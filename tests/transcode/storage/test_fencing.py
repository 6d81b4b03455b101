"""Two attempts of one job: whatever an older one does and whenever it wakes, the newer one's output stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from euterpe.model.errors import StaleLease
from euterpe.transcode.schema.locations import STAGING, LocalDestination
from euterpe.transcode.storage.errors import StorageError
from euterpe.transcode.storage.local import LocalWriter, remove_staging_of_ended
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.transcode.storage.ports import Destination, UploadAttempt
from tests.transcode.storage.conftest import S3Place
from tests.transcode.storage.gate import Fault, Seen, Token
from tests.transcode.storage.parts import (
    JOB,
    MIB,
    Claim,
    JobCredentials,
    MemoryLedger,
    random_file,
    sha256_of,
)

SIZES = pytest.mark.parametrize("size", [1000, 2 * MIB], ids=["one put", "multipart"])


def makes_visible(seen: Seen) -> bool:
    """The request that makes an output visible."""
    if seen.method == "POST":
        return "uploadId" in seen.query
    return seen.method == "PUT" and "partNumber" not in seen.query


async def content_of(place: S3Place, folder: Path) -> str:
    reader = place.reader("out/a")
    fetched = await reader.fetch(folder / "content", max_bytes=100 * MIB)
    await reader.close()
    return fetched.sha256


async def put(destination: Destination, path: Path, claim: Claim) -> str:
    return (await destination.put(path, "a", content_type="x/y", fence=claim.fence)).sha256


@SIZES
async def test_a_stale_claim_makes_nothing_visible(place: S3Place, tmp_path: Path, size: int) -> None:
    random_file(tmp_path / "old", size)
    ledger = MemoryLedger()
    writer = place.writer(ledger=ledger)
    with pytest.raises(StaleLease):
        await put(writer, tmp_path / "old", Claim(is_current=False))
    await writer.close()
    assert place.folder is not None
    assert [path for path in place.folder.rglob("*") if path.is_file()] == []
    assert ledger.rows == []


@SIZES
async def test_a_worker_that_froze_behind_its_last_check_does_not_replace_the_newer_output(
    conditional: S3Place, tmp_path: Path, size: int
) -> None:
    """The older attempt passes its fence, its last request is held up, the newer attempt does everything, and only
    then the request goes on."""
    place = conditional
    random_file(tmp_path / "old", size)
    newer = random_file(tmp_path / "new", size)
    ledger, claim = MemoryLedger(), Claim()
    old, new = place.writer(ledger=ledger, version=1), place.writer(ledger=MemoryLedger(), version=2)
    place.gate.hold = held = asyncio.Event()
    place.gate.held = makes_visible
    late = asyncio.create_task(put(old, tmp_path / "old", claim))
    await place.gate.reached.wait()
    place.gate.hold = None
    claim.is_current = False
    assert await put(new, tmp_path / "new", Claim(2)) == newer
    held.set()
    with pytest.raises(StaleLease):
        await late
    assert await content_of(place, tmp_path) == newer
    assert ledger.rows == []
    await old.close()
    await new.close()


@SIZES
async def test_a_worker_that_wakes_before_the_newer_one_is_done_is_replaced_by_it(
    conditional: S3Place, tmp_path: Path, size: int
) -> None:
    place = conditional
    random_file(tmp_path / "old", size)
    newer = random_file(tmp_path / "new", size)
    old, new = place.writer(version=1), place.writer(version=2)
    place.gate.hold = held = asyncio.Event()
    place.gate.held = makes_visible
    current = asyncio.create_task(put(new, tmp_path / "new", Claim(2)))
    await place.gate.reached.wait()
    place.gate.hold = None
    await put(old, tmp_path / "old", Claim(1))
    held.set()
    assert await current == newer
    assert await content_of(place, tmp_path) == newer
    await old.close()
    await new.close()


@SIZES
async def test_of_two_that_replace_an_older_object_the_late_one_stops(
    conditional: S3Place, tmp_path: Path, size: int
) -> None:
    """As above, where the key was taken before: the condition is then the object that was seen."""
    place = conditional
    random_file(tmp_path / "first", 10)
    random_file(tmp_path / "old", size)
    newer = random_file(tmp_path / "new", size)
    old, new, claim = place.writer(version=2), place.writer(version=3), Claim(2)
    first = place.writer(version=1)
    await put(first, tmp_path / "first", Claim(1))
    await first.close()
    place.gate.hold = held = asyncio.Event()
    place.gate.held = lambda seen: makes_visible(seen) and "if-match" in seen.headers
    late = asyncio.create_task(put(old, tmp_path / "old", claim))
    await place.gate.reached.wait()
    place.gate.hold = None
    claim.is_current = False
    assert await put(new, tmp_path / "new", Claim(3)) == newer
    held.set()
    with pytest.raises(StaleLease):
        await late
    assert await content_of(place, tmp_path) == newer
    await old.close()
    await new.close()


async def test_an_older_upload_that_was_discarded_knows_that_it_is_stale(place: S3Place, tmp_path: Path) -> None:
    random_file(tmp_path / "old", 2 * MIB)
    ledger, claim = MemoryLedger(), Claim()
    old, new = place.writer(ledger=ledger, version=1), place.writer(ledger=ledger, version=2)
    place.gate.hold = held = asyncio.Event()
    place.gate.held = lambda seen: seen.query.get("partNumber") == "2"
    late = asyncio.create_task(put(old, tmp_path / "old", claim))
    await place.gate.reached.wait()
    place.gate.hold = None
    claim.is_current = False
    assert await new.discard_leftovers() == 1
    held.set()
    with pytest.raises(StaleLease):
        await late
    await old.close()
    await new.close()


async def test_a_completion_that_met_another_writer_is_sent_again_from_the_start(
    conditional: S3Place, tmp_path: Path
) -> None:
    """AWS forgets the upload then; the gate takes its answer's part, and the store's memory is wiped behind it."""
    place, ledger = conditional, MemoryLedger()
    expected = random_file(tmp_path / "a", 2 * MIB)
    place.gate.faults = [
        Fault(lambda seen: makes_visible(seen), status=409, code="ConditionalRequestConflict"),
        Fault(lambda seen: makes_visible(seen), status=404, code="NoSuchUpload"),
    ]
    writer = place.writer(ledger=ledger)
    assert await put(writer, tmp_path / "a", Claim()) == expected
    await writer.close()
    assert place.gate.count("POST", uploads="") == 2
    assert ledger.rows == []


async def test_an_object_that_is_deleted_before_it_is_replaced_is_no_hindrance(
    conditional: S3Place, tmp_path: Path
) -> None:
    place = conditional
    expected = random_file(tmp_path / "a", 1000)
    first = place.writer(version=1)
    await put(first, tmp_path / "a", Claim(1))
    place.gate.faults = [Fault(lambda seen: "if-match" in seen.headers, status=404, code="NoSuchKey")]
    claim, second = Claim(2), place.writer(version=2)
    assert await put(second, tmp_path / "a", claim) == expected
    for writer in (first, second):
        await writer.close()
    assert claim.checks == 3


async def test_what_another_has_put_since_is_not_deleted(conditional: S3Place, place: S3Place, tmp_path: Path) -> None:
    """On a store that knows conditional deletes, on one that does not, and in a folder."""
    older, newer = random_file(tmp_path / "old", 1000), random_file(tmp_path / "new", 1000)
    assert older != newer
    places: list[tuple[Destination, Destination]] = [
        (conditional.writer(version=1), conditional.writer(version=2)),
        (place.writer(version=1), place.writer(version=2)),
        (local(tmp_path / "root", 2), local(tmp_path / "root", 2)),
    ]
    for old, new in places:
        first = await old.put(tmp_path / "old", "a", content_type="x/y", fence=Claim().fence)
        second = await new.put(tmp_path / "new", "a", content_type="x/y", fence=Claim().fence)
        await old.delete("a", etag=first.etag)
        with pytest.raises(StaleLease):
            await old.delete("a", etag=second.etag, fence=Claim(is_current=False).fence)
    assert await content_of(conditional, tmp_path) == await content_of(place, tmp_path) == newer
    assert sha256_of(tmp_path / "root/out/a") == newer
    for old, new in places:
        await new.delete("a", etag=(await new.put(tmp_path / "new", "a", content_type="", fence=Claim().fence)).etag)
        await old.close()
        await new.close()
    with pytest.raises(StorageError):
        await content_of(place, tmp_path)
    assert not (tmp_path / "root/out/a").exists()


async def test_a_late_worker_deletes_nothing_in_a_folder(tmp_path: Path) -> None:
    random_file(tmp_path / "new", 1000)
    await put(local(tmp_path / "root", 2), tmp_path / "new", Claim(2))
    with pytest.raises(StaleLease):
        await local(tmp_path / "root", 1).delete("a")
    assert (tmp_path / "root/out/a").exists()


@pytest.mark.parametrize("trouble", ["cannot look", "no conditions", "a bad request"])
async def test_stores_and_credentials_without_conditions_still_take_outputs(
    conditional: S3Place, tmp_path: Path, trouble: str
) -> None:
    place = conditional
    expected = random_file(tmp_path / "a", 1000)
    first = place.writer(version=1)
    await put(first, tmp_path / "a", Claim(1))
    await first.close()
    credentials = JobCredentials(place.token("w"))
    if trouble == "cannot look":
        place.gate.tokens = {"w": Token(can_read=False)}
    else:
        status, code = (501, "NotImplemented") if trouble == "no conditions" else (400, "InvalidArgument")
        place.gate.faults = [Fault(lambda seen: "if-none-match" in seen.headers, status=status, code=code)]
    claim = Claim(2)
    writer = place.writer(credentials, version=2)
    assert await put(writer, tmp_path / "a", claim) == expected
    await writer.close()
    assert claim.checks == 2
    assert credentials.renewals == []


def local(root: Path, version: int) -> LocalWriter:
    return LocalWriter(LocalDestination(prefix="out/"), UploadAttempt(JOB, version), LocalRoot(root))


async def test_in_a_folder_the_older_attempt_is_refused_from_the_newer_ones_first_word(tmp_path: Path) -> None:
    """Here the older attempt's own fence even says that all is well: it was asked too early."""
    root = tmp_path / "root"
    random_file(tmp_path / "old", 1000)
    newer = random_file(tmp_path / "new", 1000)
    old, new = local(root, 1), local(root, 2)
    await new.discard_leftovers()
    with pytest.raises(StaleLease):
        await put(old, tmp_path / "old", Claim(1))
    assert not (root / "out/a").exists()
    await put(new, tmp_path / "new", Claim(2))
    with pytest.raises(StaleLease):
        await put(old, tmp_path / "old", Claim(1))
    assert sha256_of(root / "out/a") == newer


async def test_in_a_folder_nothing_comes_between_the_check_and_the_rename(tmp_path: Path) -> None:
    root = tmp_path / "root"
    random_file(tmp_path / "old", 1000)
    newer = random_file(tmp_path / "new", 1000)
    in_the_fence, go_on = asyncio.Event(), asyncio.Event()

    async def slow_fence() -> None:
        in_the_fence.set()
        await go_on.wait()

    old, new = local(root, 1), local(root, 2)
    late = asyncio.create_task(old.put(tmp_path / "old", "a", content_type="", fence=slow_fence))
    await in_the_fence.wait()
    current = asyncio.create_task(put(new, tmp_path / "new", Claim(2)))
    done, _ = await asyncio.wait([current], timeout=0.2)
    assert not done
    go_on.set()
    await late
    await current
    assert sha256_of(root / "out/a") == newer


async def test_in_a_folder_leftovers_of_older_attempts_are_removed_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    staging = root / STAGING / JOB
    staging.mkdir(parents=True)
    for name in ("1-aa.part", "2-bb.part", "3-cc.part"):
        (staging / name).write_text("x")
    writer = local(root, 3)
    assert await writer.discard_leftovers() == 2
    assert sorted(path.name for path in staging.iterdir()) == ["3-cc.part", "fence"]
    await writer.finish()
    assert list((root / STAGING).iterdir()) == []


async def test_what_killed_workers_left_of_ended_jobs_goes_when_a_worker_starts(tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert await remove_staging_of_ended(LocalRoot(root), is_even) == 0
    names = [f"{JOB[:-1]}{number}" for number in range(4)]
    for name in (*names, "no-job-0"):
        (root / STAGING / name).mkdir(parents=True)
        (root / STAGING / name / "1-aa.part").touch()
    assert await remove_staging_of_ended(LocalRoot(root), is_even) == 2
    assert sorted(path.name for path in (root / STAGING).iterdir()) == [*names[1::2], "no-job-0"]


async def is_even(job_id: str) -> bool:
    return int(job_id[-1]) % 2 == 0


async def test_a_lock_that_is_never_given_back_ends_the_attempt_and_not_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.transcode.storage.local._LOCK_WAIT_S", 0.05)
    root = tmp_path / "root"
    random_file(tmp_path / "a", 10)
    in_the_fence = asyncio.Event()

    async def frozen() -> None:
        in_the_fence.set()
        await asyncio.Event().wait()

    late = asyncio.create_task(local(root, 1).put(tmp_path / "a", "a", content_type="", fence=frozen))
    await in_the_fence.wait()
    with pytest.raises(StorageError) as caught:
        await put(local(root, 2), tmp_path / "a", Claim(2))
    assert caught.value.code == "storage.locked"
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert not (root / "out/a").exists()
