"""The switch interval is short while someone writes, and as it was afterwards."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.sqlite.switch_interval import SOON_S, ShortSwitchInterval


@pytest.fixture(autouse=True)
def _interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_the_last_one_out_puts_the_interval_back() -> None:
    sys.setswitchinterval(0.0071)
    sooner = ShortSwitchInterval()
    for _ in range(100):
        with sooner:
            pass
    with sooner:
        with sooner:
            assert sys.getswitchinterval() == pytest.approx(SOON_S, abs=2e-6)
        assert sys.getswitchinterval() == pytest.approx(SOON_S, abs=2e-6)
    assert sys.getswitchinterval() == pytest.approx(0.0071, abs=2e-6)


async def test_it_is_short_already_while_the_writer_thread_is_waited_for(tmp_path: Path) -> None:
    """Else the thread, once woken, waits for a busy event loop for as long as a whole batch takes it."""
    sys.setswitchinterval(0.0071)
    engine = SqliteEngine(str(tmp_path / "jobs.db"))
    await engine.migrate()
    await engine.open()
    (writers,) = engine._slots
    with writers.lock:
        assert sys.getswitchinterval() == pytest.approx(0.0071, abs=2e-6)
        writing = asyncio.create_task(engine.write(lambda: pausing("a queue")))
        await asyncio.sleep(0)
        assert sys.getswitchinterval() == pytest.approx(SOON_S, abs=2e-6), "the thread waits for the loop"
    await writing
    await engine.close()
    assert sys.getswitchinterval() == pytest.approx(0.0071, abs=2e-6)


def pausing(name: str) -> Program[None]:
    yield one("pause", kind="queue", name=name)


def test_an_interval_that_is_shorter_already_stays() -> None:
    sys.setswitchinterval(0.00005)
    with ShortSwitchInterval():
        assert sys.getswitchinterval() == pytest.approx(0.00005, abs=2e-6)
