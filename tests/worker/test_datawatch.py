"""Wake-ups by the WAL of a SQLite file: by the kernel's word, by looking, in bursts, and when the file is replaced."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from euterpe.wakeups.sqlite_file import DataWatch, trace_of
from tests.worker.floor import until


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db-wal"
    path.write_bytes(b"")
    return path


@pytest.fixture(params=["kernel", "looking"])
async def wakes(
    request: pytest.FixtureRequest, wal: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[float]]:
    """When the watch woke us. `looking`: as on a system whose kernel does not tell."""
    if request.param == "looking":
        monkeypatch.setattr("euterpe.wakeups.sqlite_file.FileWatch", no_inotify)
    elif not sys.platform.startswith("linux"):
        pytest.skip("only Linux has inotify")
    watch = DataWatch(str(wal).removesuffix("-wal"))
    woken: list[float] = []
    unsubscribe = watch.subscribe(lambda: woken.append(time.monotonic()), ["default"])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    yield woken
    unsubscribe()
    await watch.close()


def no_inotify(path: str, *, touched: object, written: object) -> None:
    raise OSError("not here")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"frame")


async def test_a_write_wakes(wal: Path, wakes: list[float]) -> None:
    assert wakes == []
    append(wal)
    await until(lambda: wakes, "the write is noticed")


async def test_a_burst_wakes_a_few_times_and_the_last_write_is_not_passed_over(wal: Path, wakes: list[float]) -> None:
    started = time.monotonic()
    while time.monotonic() - started < 0.3:
        append(wal)
        await asyncio.sleep(0.001)
    last = time.monotonic()
    append(wal)
    await until(lambda: wakes and wakes[-1] >= last, "the last write is noticed")
    assert len(wakes) < 40


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has inotify")
async def test_the_kernel_is_asked_for_writes_again_after_each_wake(wal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a wake is under way nothing more is heard of writes: a commit is thousands of them."""
    monkeypatch.setattr("euterpe.wakeups.sqlite_file.LOOK_BESIDE_S", 3600.0)
    watch = DataWatch(str(wal).removesuffix("-wal"))
    woken: list[float] = []
    unsubscribe = watch.subscribe(lambda: woken.append(time.monotonic()), ["default"])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for times in (1, 2, 3):
        append(wal)
        await until(lambda times=times: len(woken) >= times, "the kernel tells of the write")  # type: ignore[misc]
    unsubscribe()
    await watch.close()


async def test_a_touch_after_a_commit_wakes_sooner_than_the_writes_before_it(wal: Path) -> None:
    other = DataWatch(str(wal).removesuffix("-wal"))
    watch = DataWatch(str(wal).removesuffix("-wal"))
    woken: list[float] = []
    unsubscribe = watch.subscribe(lambda: woken.append(time.monotonic()), ["default"])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    append(wal)
    await asyncio.sleep(0)
    before = len(woken)
    other.announce(["default"])
    await until(lambda: len(woken) > before, "the touch is noticed")
    unsubscribe()
    await watch.close()


async def test_who_listens_on_this_loop_is_told_before_the_commit_and_only_others_after_it(wal: Path) -> None:
    watch = DataWatch(str(wal).removesuffix("-wal"))
    woken: list[str] = []
    unsubscribe = watch.subscribe(lambda: woken.append("woken"), ["default"])
    told = watch.notify_before_commit("default")
    assert woken == ["woken"]
    os.utime(wal, (0, 0))
    long_ago = trace_of(str(wal))
    told.announce({"default"})
    assert woken == ["woken"]
    assert trace_of(str(wal)) != long_ago, "other processes are told by a touch"
    unsubscribe()
    await watch.close()


async def test_a_file_that_is_replaced_is_watched_on(wal: Path, wakes: list[float]) -> None:
    await asyncio.to_thread(wal.unlink)
    await until(lambda: wakes, "its absence is noticed")
    await asyncio.to_thread(wal.write_bytes, b"new")
    seen = len(wakes)
    append(wal)
    await until(lambda: len(wakes) > seen, "the new file is watched")


async def test_nothing_is_watched_while_nobody_listens(wal: Path) -> None:
    watch = DataWatch(str(wal).removesuffix("-wal"))
    before = len(asyncio.all_tasks())
    first = watch.subscribe(lambda: None, ["a"])
    second = watch.subscribe(lambda: None, ["b"])
    assert len(asyncio.all_tasks()) == before + 1
    first()
    second()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before
    await watch.close()
