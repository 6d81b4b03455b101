"""Room on the worker's disk: a job that does not fit beside what runs waits, and its requester is not charged."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import pytest

from euterpe.model.state import State
from euterpe.queue.queue import core_of
from euterpe.transcode.handler.disk import DISK_FULL, DiskRoom, Reservation
from euterpe.transcode.media.errors import MediaError
from tests.transcode.service.studio import Studio
from tests.worker.floor import until

Usage = namedtuple("Usage", "total used free")


@dataclass
class FakeDisk:
    """As much room as a test says. The real one has more than any test could fill."""

    free: int

    def usage(self, _path: Path) -> Usage:
        return Usage(0, 0, self.free)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> FakeDisk:
    fake = FakeDisk(1_000)
    monkeypatch.setattr("euterpe.transcode.handler.disk.shutil.disk_usage", fake.usage)
    return fake


async def test_a_source_times_three_must_fit(small: FakeDisk, tmp_path: Path) -> None:
    room = DiskRoom(tmp_path, min_free=100)
    async with room.reservation(tmp_path / "a") as job:
        await room.admit(job, 300)
        with pytest.raises(MediaError, match="has no room") as caught:
            await room.admit(job, 301)
    assert caught.value.code == DISK_FULL
    assert small.free == 1_000


async def test_what_running_jobs_were_promised_and_have_not_written_is_not_free(
    small: FakeDisk, tmp_path: Path
) -> None:
    room = DiskRoom(tmp_path, min_free=0)
    async with room.reservation(tmp_path / "b") as second:
        async with room.reservation(tmp_path / "a") as first:
            await room.admit(first, 200)
            with pytest.raises(MediaError):
                await room.admit(second, 200)
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "source").write_bytes(b"x" * 200)
            small.free -= 200
            await room.admit(second, 133)  # 800 are free, and 400 of them are promised.
            with pytest.raises(MediaError):
                await room.admit(second, 134)
        await room.admit(second, 266)


@pytest.mark.parametrize(("written", "code"), [(601, "encode.disk_full"), (600, DISK_FULL)])
def test_a_job_that_wrote_more_than_it_was_promised_is_to_blame(
    small: FakeDisk, tmp_path: Path, written: int, code: str
) -> None:
    room, job = DiskRoom(tmp_path, min_free=1_001), Reservation(tmp_path)
    job.need = 600
    with pytest.raises(MediaError) as caught:
        room.check(job, written)
    assert caught.value.code == code
    small.free = 1_001
    room.check(job, written)


async def test_a_job_without_room_waits_uncharged_and_runs_when_there_is_some(studio: Studio, small: FakeDisk) -> None:
    job = await studio.accepted(studio.body())
    studio.start_worker()

    async def refused() -> bool | None:
        row = await core_of(studio.queue).get(job)
        return (row.state is State.RETRYING and DISK_FULL in (row.error or "")) or None

    await until(refused, "the job was refused for want of room")
    row = await core_of(studio.queue).get(job)
    assert (row.attempt_count, (await studio.status(job))["status"]) == (0, "queued")
    small.free = 10**12
    assert (await studio.until(job))["status"] == "succeeded"
