"""Crons as data: declared by workers, paused, edited and run by operators, and made up for as they say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from euterpe.model.cron import CronRow
from euterpe.model.errors import InvalidInput, StoreUnavailable, Unsupported
from euterpe.queue.definition.cron import Cron
from euterpe.queue.definition.cron_clock import keep_time
from euterpe.queue.queue import Queue, core_of, submitter_of
from tests.queue.test_schedule import Clock

START = datetime(2026, 1, 7, 3, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def declare(queue: Queue, expression: str = "* * * * *", **said: Any) -> Cron:
    async def tick() -> None: ...

    queue.cron(expression, type="tick", **said)(tick)
    return core_of(queue).crons[-1]


async def live(
    queue: Queue, start: datetime, end: datetime, acts: dict[datetime, Callable[[], Awaitable[Any]]] | None = None
) -> None:
    """A worker's clock from the one time to the other; acts happen when their time has come."""
    clock, left = Clock(start, end), dict(acts or {})

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        for at in [at for at in left if clock.at >= at]:
            await left.pop(at)()

    with pytest.raises(asyncio.CancelledError):
        await keep_time(
            submitter_of(queue), core_of(queue).crons, store=core_of(queue).store.crons, now=clock.now, sleep=sleep
        )


async def ticks(queue: Queue) -> list[str]:
    found = (await queue.search(type="tick", limit=100)).jobs
    rows = [await core_of(queue).get(job.id) for job in found]
    return sorted((row.idempotency_key or "")[-9:-1] for row in rows)


async def test_a_paused_cron_stays_so_when_the_database_is_away_at_a_workers_start(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = declare(queue).full_name
    crons = core_of(queue).store.crons
    await live(queue, START, START + timedelta(seconds=1))
    await crons.pause(name)
    read, away = crons.list, [StoreUnavailable("away")] * 2

    async def read_when_back() -> list[CronRow]:
        if away:
            raise away.pop()
        return await read()

    monkeypatch.setattr(crons, "list", read_when_back)
    await live(queue, START + timedelta(seconds=25), START + 2 * MINUTE)
    assert (away, await ticks(queue)) == ([], [])


async def test_a_cron_is_paused_edited_and_resumed_while_workers_run(queue: Queue) -> None:
    name = declare(queue).full_name
    assert name == "tick * * * * *"
    await live(
        queue,
        START,
        START + 8 * MINUTE,
        {
            START + 2 * MINUTE: lambda: queue.crons.pause(name),
            START + 4 * MINUTE: lambda: queue.crons.resume(name),
            START + 6 * MINUTE: lambda: queue.crons.edit(name, "*/2 * * * *"),
        },
    )
    assert await ticks(queue) == ["03:01:00", "03:02:00", "03:05:00", "03:06:00", "03:08:00"]
    (found,) = await queue.crons.list()
    assert (found.expression, found.edited, found.paused) == ("*/2 * * * *", True, False)


@pytest.mark.parametrize(
    ("missed", "made_up"),
    [("skip", []), ("once", ["03:06:00"]), ("all", [f"03:0{minute}:00" for minute in range(2, 7)])],
)
async def test_ticks_that_nobody_was_up_for_are_made_up_for_as_the_cron_says(
    queue: Queue, missed: str, made_up: list[str]
) -> None:
    declare(queue, missed=missed)
    await live(queue, START, START + MINUTE)
    later = START + timedelta(minutes=5, seconds=45)
    await asyncio.gather(live(queue, later, later + MINUTE), live(queue, later, later + MINUTE))
    assert await ticks(queue) == ["03:01:00", *made_up, "03:07:00"]
    (found,) = await queue.crons.list()
    assert found.last_tick == datetime(2026, 1, 7, 3, 7, tzinfo=UTC)


async def test_what_an_operator_changed_lasts_until_the_code_says_something_else(queue: Queue) -> None:
    store = core_of(queue).store.crons
    row = declare(queue, "0 3 * * *", name="nightly").as_declared()
    await store.declare([row])
    await queue.crons.edit("tick:nightly", "0 4 * * *", tz="Europe/Berlin")
    await store.declare([row])
    (found,) = await queue.crons.list()
    assert (found.expression, found.tz) == ("0 4 * * *", "Europe/Berlin")
    await store.declare([Cron("0 5 * * *", "UTC", _job(queue), name="nightly").as_declared()])
    (found,) = await queue.crons.list()
    assert (found.expression, found.tz, found.edited) == ("0 5 * * *", "UTC", False)
    await queue.crons.forget("tick:nightly")
    assert await queue.crons.list() == []


def _job(queue: Queue) -> Any:
    async def tick() -> None: ...

    return Queue(queue.url).job("tick")(tick)


async def test_a_backfill_submits_what_is_missing_and_doubles_nothing(queue: Queue) -> None:
    name = declare(queue).full_name
    await live(queue, START, START + 2 * MINUTE)
    since = START - 2 * MINUTE
    jobs = await queue.crons.run(name, since=since, until=START + 2 * MINUTE)
    assert [job.replayed for job in jobs] == [False, False, True, True]
    assert len(await ticks(queue)) == 4
    (by_hand,) = await queue.crons.run(name)
    assert not by_hand.replayed
    with pytest.raises(InvalidInput, match="more than 1000"):
        await queue.crons.run(name, since=START - timedelta(days=2), until=START)


async def test_what_is_not_there_is_named(queue: Queue) -> None:
    for act in (queue.crons.pause, queue.crons.resume, queue.crons.forget, queue.crons.run):
        with pytest.raises(InvalidInput, match="no cron 'nope'"):
            await act("nope")
    with pytest.raises(InvalidInput, match="cron expression"):
        await queue.crons.edit("nope", "whenever")
    with pytest.raises(InvalidInput, match="skip, once, all"):
        declare(queue, missed="sometimes")
    with pytest.raises(Unsupported):
        await Queue("http://127.0.0.1:1", token="t").crons.list()


async def test_a_cron_can_be_named_by_its_job_type_while_that_has_only_one(queue: Queue) -> None:
    declare(queue)
    await core_of(queue).store.crons.declare([cron.as_declared() for cron in core_of(queue).crons])
    await queue.crons.pause("tick")
    assert [cron.paused for cron in await queue.crons.list()] == [True]
    await queue.crons.edit("tick", "0 4 * * *")
    assert len(await queue.crons.run("tick")) == 1
    queue.cron("0 5 * * *", name="late")(core_of(queue).crons[0].jobtype)
    await core_of(queue).store.crons.declare([cron.as_declared() for cron in core_of(queue).crons])
    with pytest.raises(InvalidInput, match=r"'tick' has 2 crons; name one of them: .*'tick:late'"):
        await queue.crons.resume("tick")
    with pytest.raises(InvalidInput, match="declares no cron 'tick'; it has"):
        await queue.crons.run("tick")


def test_a_job_type_without_a_name_in_a_script_warns(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import euterpe\nqueue = euterpe.Queue('sqlite:///jobs.db')\n\n@queue.job()\ndef unnamed() -> None: ...\n\n"
        "@queue.job('named')\ndef named() -> None: ...\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "always", str(script)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stderr.count("UserWarning") == 1
    assert "__main__.unnamed" in ran.stderr
    assert "@queue.job('unnamed')" in ran.stderr
