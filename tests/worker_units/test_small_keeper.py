"""The lease keeper before it is needed: it watches the table, and ends with its worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO

import pytest

from euterpe.lease_keeper.__main__ import until_one_lasts
from euterpe.model.job import Lease
from euterpe.worker.heartbeat.lease_table import LeaseTable

JOB = "01a1e270-00f8-40f0-8163-b44a481d38ab"


@pytest.fixture
def workers_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[bytes]]:
    """The worker's end of the pipe that is the keeper's standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stdin, os.fdopen(writing, "wb") as ours:
        monkeypatch.setattr("sys.stdin", stdin)
        yield ours


@pytest.fixture
def table() -> Iterator[LeaseTable]:
    table = LeaseTable(10)
    yield table
    table.close()


@pytest.mark.usefixtures("workers_end")
def test_a_lease_that_lasts_makes_it_begin(table: LeaseTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.lease_keeper.__main__.TABLE_CHECK_S", 0.01)
    now = iter(range(1000))
    monkeypatch.setattr("euterpe.lease_keeper.__main__.time.monotonic", lambda: float(next(now)))
    table.hold(Lease(JOB, 1, 0), 1e9, 60_000_000)
    assert until_one_lasts(table)
    looks = next(now)
    assert 10 <= looks <= 12, f"a sixth of a minute is ten seconds, and a look was a second; it took {looks} looks"


@pytest.mark.usefixtures("workers_end")
def test_a_short_lease_makes_it_begin_at_the_first_look(table: LeaseTable) -> None:
    table.hold(Lease(JOB, 1, 0), 1e9, 3_000_000)
    assert until_one_lasts(table)


def test_claims_that_come_and_go_do_not_and_it_ends_with_the_worker(
    table: LeaseTable, workers_end: IO[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.lease_keeper.__main__.TABLE_CHECK_S", 0.001)
    looks = 0
    slot = table.hold(Lease(JOB, 1, 0), 1e9, 60_000_000)

    def another_second() -> float:
        nonlocal looks, slot
        looks += 1
        table.release(slot)
        slot = table.hold(Lease(JOB, looks + 1, 0), 1e9, 60_000_000)
        if looks == 100:
            workers_end.close()
        return float(looks)

    monkeypatch.setattr("euterpe.lease_keeper.__main__.time.monotonic", another_second)
    assert not until_one_lasts(table)
    assert looks >= 100
