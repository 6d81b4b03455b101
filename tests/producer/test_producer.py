"""Each version of a file becomes a job once, whoever looks, however often, and whatever happens in between."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections import Counter
from pathlib import Path

import pytest

from euterpe import Queue
from euterpe.model.errors import StoreUnavailable
from euterpe.model.retention import Chore
from euterpe.ports import Store
from euterpe.producer.globs import Globs
from euterpe.queue.queue import core_of
from tests.patience import PATIENCE_S
from tests.producer.conftest import names, payloads, producer_of

NEVER = asyncio.Event()


class ManualClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def until_names(store: Store, wanted: list[str]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await names(store) != wanted:  # noqa: ASYNC110  # what is waited for is a row of the database
            await asyncio.sleep(0.02)


async def test_a_job_names_its_file_and_its_priority_goes_by_the_extension(music: Path, store: Store) -> None:
    (music / "a.WAV").write_text("12345")
    (music / "notes.txt").write_text("1")
    await producer_of(music, store).scan(NEVER)
    assert await payloads(store) == [
        {"filepath": str(music / "a.WAV"), "filesize": 5, "priority": "high"},
        {"filepath": str(music / "notes.txt"), "filesize": 1, "priority": "low"},
    ]
    jobs = await store.peek(["files"], 10)
    assert [(job.type, job.priority) for job in jobs] == [("process_file", 1), ("process_file", 3)]


async def test_a_file_is_enqueued_once_over_scans_restarts_and_producers(music: Path, store: Store) -> None:
    for number in range(60):
        (music / f"{number:02}.wav").write_text("x" * number)
    first, second = producer_of(music, store), producer_of(music, store)
    await asyncio.gather(first.scan(NEVER), second.scan(NEVER))
    await first.scan(NEVER)
    restarted = producer_of(music, store)
    await restarted.scan(NEVER)
    assert await names(store) == [f"{number:02}.wav" for number in range(60)]
    assert first.counts.enqueued + second.counts.enqueued == 60
    assert (restarted.counts.enqueued, restarted.counts.known) == (0, 60)


async def test_a_changed_file_is_enqueued_again_and_a_renamed_one_too(music: Path, sqlite_store: Store) -> None:
    (music / "a.wav").write_text("one")
    producer = producer_of(music, sqlite_store)
    await producer.scan(NEVER)
    (music / "a.wav").write_text("two!")
    await producer.scan(NEVER)
    os.utime(music / "a.wav", ns=(1, 1))  # the same size, at another time
    await producer.scan(NEVER)
    (music / "a.wav").rename(music / "b.wav")
    await producer.scan(NEVER)
    assert Counter(await names(sqlite_store)) == {"a.wav": 3, "b.wav": 1}


async def test_another_recipe_makes_every_file_a_job_again(music: Path, sqlite_store: Store) -> None:
    (music / "a.wav").write_text("one")
    for recipe in ("mp3_320", "mp3_320", "flac"):
        await producer_of(music, sqlite_store, recipe=recipe).scan(NEVER)
    assert await names(sqlite_store) == ["a.wav", "a.wav"]


async def test_a_file_stays_known_when_its_job_was_pruned_long_ago(music: Path, sqlite_url: str) -> None:
    (music / "a.wav").write_text("one")
    day_us = 86_300_000_000
    now_us = 1_000 * day_us
    queue = Queue(sqlite_url, clock=lambda: now_us)
    async with queue:
        store = core_of(queue).store
        await producer_of(music, store).scan(NEVER)
        (job,) = await store.peek(["files"], 10)
        await store.cancel(job.id)
        for _ in range(3):
            now_us += 300 * day_us
            for chore in (Chore.JOBS, Chore.TOMBSTONES, Chore.IDEMPOTENCY_KEYS):
                await store.sweeps.tidy(chore, 10)
        assert await names(store) == []
        restarted = producer_of(music, store)
        await restarted.scan(NEVER)
        assert (restarted.counts.enqueued, restarted.counts.known) == (0, 1)


async def test_a_file_that_grows_is_left_alone_until_it_is_still(music: Path, sqlite_store: Store) -> None:
    clock = ManualClock()
    producer = producer_of(music, sqlite_store, settle_s=2.0, clock_s=clock)
    half = music / "half.wav"
    half.write_text("ha")
    await producer.scan(NEVER)
    for _ in range(5):
        clock.now += 1.9
        with half.open("a") as file:
            file.write("lf")
        await producer.scan(NEVER)
        assert await names(sqlite_store) == []
    clock.now += 1.9
    await producer.scan(NEVER)
    assert await names(sqlite_store) == []
    clock.now += 0.2
    await producer.scan(NEVER)
    assert [payload["filesize"] for payload in await payloads(sqlite_store)] == [12]


async def test_what_changes_between_look_and_submit_is_looked_at_again(music: Path, sqlite_store: Store) -> None:
    (music / "a.wav").write_text("one")

    class ChangesMeanwhile:
        async def take(self, count: int) -> float:
            (music / "a.wav").write_text("two, longer")
            return 0.0

        async def give_back(self, count: int) -> None: ...

    producer = producer_of(music, sqlite_store, rate=ChangesMeanwhile())
    await producer.scan(NEVER)
    assert await names(sqlite_store) == []
    await producer_of(music, sqlite_store).scan(NEVER)
    assert [payload["filesize"] for payload in await payloads(sqlite_store)] == [11]


async def test_a_running_producer_follows_the_tree_as_it_is_told_of_changes(
    music: Path, tmp_path: Path, sqlite_store: Store
) -> None:
    """The scan interval is an hour: what is found after the first look was told by the operating system."""
    pytest.importorskip("watchfiles", reason="the extra `producer`, which the locks hold")
    (music / "first.wav").write_text("1")
    stop = asyncio.Event()
    producer = producer_of(music, sqlite_store, settle_s=0.05, scan_interval_s=3600, watches=True)
    running = asyncio.create_task(producer.run(stop))
    try:
        await until_names(sqlite_store, ["first.wav"])
        async with asyncio.timeout(PATIENCE_S):  # the watch may begin a moment after the first look
            probes = (music / f"probe{number}" for number in itertools.count())
            while not any(name.startswith("probe") for name in await names(sqlite_store)):
                next(probes).write_text("x")
                await asyncio.sleep(0.2)
        (music / "written.wav").write_text("2")
        await until_contains(sqlite_store, "written.wav")
        (tmp_path / "elsewhere.wav").write_text("3")
        (tmp_path / "elsewhere.wav").rename(music / "renamed in.wav")
        await until_contains(sqlite_store, "renamed in.wav")
        album = tmp_path / "album"
        (album / "cd1").mkdir(parents=True)
        (album / "cd1/deep.wav").write_text("4")
        album.rename(music / "album")
        await until_contains(sqlite_store, "deep.wav")
    finally:
        stop.set()
        await running
    assert max(Counter(await names(sqlite_store)).values()) == 1


async def test_changes_behind_a_link_out_of_the_tree_make_no_jobs(
    music: Path, tmp_path: Path, sqlite_store: Store
) -> None:
    """The watch follows links, and tells what happens where they lead."""
    pytest.importorskip("watchfiles", reason="the extra `producer`, which the locks hold")
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (music / "out").symlink_to(outside)
    (music / "loop").symlink_to(".")
    stop = asyncio.Event()
    producer = producer_of(music, sqlite_store, settle_s=0.0, scan_interval_s=3600, watches=True)
    running = asyncio.create_task(producer.run(stop))
    try:
        async with asyncio.timeout(PATIENCE_S):
            for number in itertools.count():
                (outside / f"deep/secret{number}.wav").write_text("x")
                (music / f"probe{number}").write_text("x")
                await asyncio.sleep(0.2)
                if len([name for name in await names(sqlite_store) if name.startswith("probe")]) >= 3:
                    break
    finally:
        stop.set()
        await running
    found = [Path(payload["filepath"]) for payload in await payloads(sqlite_store)]
    assert {path.parent for path in found} == {music}
    assert all(path.name.startswith("probe") for path in found)


async def test_a_name_that_cannot_be_told_does_not_end_the_watch(
    music: Path, sqlite_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """watchfiles raises at a name that is no UTF-8, and tells nothing more."""
    pytest.importorskip("watchfiles", reason="the extra `producer`, which the locks hold")
    caplog.set_level(logging.INFO)
    stop = asyncio.Event()
    producer = producer_of(music, sqlite_store, settle_s=0.0, scan_interval_s=3600, watches=True)
    running = asyncio.create_task(producer.run(stop))
    try:
        async with asyncio.timeout(PATIENCE_S):
            for number in itertools.count():
                (music / os.fsdecode(b"odd%d\xff.wav" % number)).write_text("x")
                await asyncio.sleep(0.1)
                if "cannot be watched" in caplog.text:
                    break
            for number in itertools.count():
                (music / f"later{number}.wav").write_text("x")
                await asyncio.sleep(0.1)
                if await names(sqlite_store):
                    break
    finally:
        stop.set()
        await running
    assert caplog.text.count("cannot be watched") == 1
    assert not [r for r in caplog.records if r.name.startswith("watchfiles") and r.levelno < logging.WARNING]


async def until_contains(store: Store, name: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while name not in await names(store):  # noqa: ASYNC110  # what is waited for is a row of the database
            await asyncio.sleep(0.02)


async def test_without_being_told_the_periodic_scan_finds_new_files(music: Path, sqlite_store: Store) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(producer_of(music, sqlite_store, scan_interval_s=0.05).run(stop))
    try:
        (music / "late.wav").write_text("1")
        await until_names(sqlite_store, ["late.wav"])
    finally:
        stop.set()
        await running


async def test_thousands_of_files_in_many_folders_are_as_many_jobs(music: Path, sqlite_store: Store) -> None:
    for number in range(2_000):
        folder = music / str(number % 100)
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.wav").touch()
    producer = producer_of(music, sqlite_store)
    await producer.scan(NEVER)
    assert producer.counts.enqueued == 2_000
    (depth,) = await sqlite_store.depths()
    assert (depth.queue, depth.count) == ("files", 2_000)


async def test_a_database_that_is_away_for_a_moment_costs_no_file(music: Path, sqlite_store: Store) -> None:
    for number in range(5):
        (music / f"{number}.wav").touch()

    class AwayTwice:
        """The rate is kept in the same database: it fails as that does."""

        failures = 2

        async def take(self, count: int) -> float:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("away")
            return 0.0

        async def give_back(self, count: int) -> None: ...

    await producer_of(music, sqlite_store, rate=AwayTwice()).scan(NEVER)
    assert len(await names(sqlite_store)) == 5


async def test_a_folder_that_vanishes_is_waited_for(music: Path, sqlite_store: Store) -> None:
    producer = producer_of(music, sqlite_store)
    os.rmdir(music)  # noqa: PTH106
    await producer.scan(NEVER)
    os.mkdir(music)  # noqa: PTH102
    (music / "back.wav").touch()
    await producer.scan(NEVER)
    assert await names(sqlite_store) == ["back.wav"]


async def test_only_what_the_globs_take_becomes_jobs(music: Path, sqlite_store: Store) -> None:
    for name in ("a.wav", "b.tmp", "c.txt"):
        (music / name).touch()
    await producer_of(music, sqlite_store, globs=Globs(["*.wav", "*.tmp"], ["*.tmp"])).scan(NEVER)
    assert await names(sqlite_store) == ["a.wav"]
