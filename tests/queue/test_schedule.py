"""Cron: each tick once, in the zone that was named, also after an oversleep, never twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from euterpe.model.errors import IdempotencyConflict, InvalidInput, StoreUnavailable
from euterpe.queue.definition.cron import Cron
from euterpe.queue.definition.cron_clock import keep_time
from euterpe.queue.queue import Queue, core_of, submitter_of


class Clock:
    """Time that passes only when someone sleeps; it ends the test's run at its end."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.at = start
        self.end = end
        self.oversleep: dict[datetime, timedelta] = {}

    def now(self) -> datetime:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        for moment, extra in list(self.oversleep.items()):
            if self.at >= moment:
                self.at += extra
                del self.oversleep[moment]
        if self.at > self.end:
            raise asyncio.CancelledError
        await asyncio.sleep(0)


class Ledger:
    """Stands for the queue: notes every submit, and fails when told to."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.options: list[dict[str, Any]] = []
        self.failures: list[Exception] = []

    async def submit_call(self, call: Any, connection: Any, options: Mapping[str, Any]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.keys.append(options["idempotency_key"])
        self.options.append(dict(options))


def ticks(ledger: Ledger) -> list[str]:
    return [key[-20:] for key in ledger.keys]


async def run(queue: Queue, expression: str, tz: str, clock: Clock, ledger: Ledger) -> None:
    @queue.job("tick")
    async def tick() -> None: ...

    cron = Cron(expression, tz, tick)
    with pytest.raises(asyncio.CancelledError):
        await keep_time(ledger, [cron], now=clock.now, sleep=clock.sleep)


async def test_every_tick_is_submitted_at_its_time(unopened: Queue) -> None:
    clock = Clock(datetime(2026, 1, 7, 2, 50, tzinfo=UTC), datetime(2026, 1, 7, 6, 0, tzinfo=UTC))
    ledger = Ledger()
    await run(unopened, "0 3-5 * * *", "UTC", clock, ledger)
    assert ticks(ledger) == [f"2026-01-07T0{hour}:00:00Z" for hour in (3, 4, 5)]
    assert ledger.options[0]["tags"] == {"cron": "0 3-5 * * *"}


async def test_a_tick_is_meant_in_its_time_zone_also_when_the_clocks_change(unopened: Queue) -> None:
    clock = Clock(datetime(2026, 3, 28, 0, 0, tzinfo=UTC), datetime(2026, 3, 30, 12, 0, tzinfo=UTC))
    ledger = Ledger()
    await run(unopened, "0 3 * * *", "Europe/Berlin", clock, ledger)
    assert ticks(ledger) == ["2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]


async def test_a_worker_that_overslept_a_little_submits_what_it_missed(unopened: Queue) -> None:
    clock = Clock(datetime(2026, 1, 7, 3, 0, 0, tzinfo=UTC), datetime(2026, 1, 7, 3, 1, tzinfo=UTC))
    clock.oversleep = {datetime(2026, 1, 7, 3, 0, 10, tzinfo=UTC): timedelta(seconds=25)}
    ledger = Ledger()
    await run(unopened, "*/10 * * * * *", "UTC", clock, ledger)
    assert ticks(ledger) == [f"2026-01-07T03:00:{second}Z" for second in (10, 20, 30, 40, 50)] + [
        "2026-01-07T03:01:00Z"
    ]


async def test_a_worker_that_overslept_long_submits_only_the_last_minute(unopened: Queue) -> None:
    clock = Clock(datetime(2026, 1, 7, 3, 0, 0, tzinfo=UTC), datetime(2026, 1, 7, 4, 0, 40, tzinfo=UTC))
    clock.oversleep = {datetime(2026, 1, 7, 3, 0, 30, tzinfo=UTC): timedelta(hours=1)}
    ledger = Ledger()
    await run(unopened, "*/30 * * * * *", "UTC", clock, ledger)
    assert ticks(ledger) == ["2026-01-07T04:00:00Z", "2026-01-07T04:00:30Z"]


async def test_a_tick_is_tried_again_while_the_database_is_away_and_left_when_another_was_first(
    unopened: Queue,
) -> None:
    clock = Clock(datetime(2026, 1, 7, 2, 59, tzinfo=UTC), datetime(2026, 1, 7, 5, 30, tzinfo=UTC))
    ledger = Ledger()
    ledger.failures = [StoreUnavailable("away"), StoreUnavailable("away"), IdempotencyConflict("k", "id")]
    await run(unopened, "0 * * * *", "UTC", clock, ledger)
    assert ticks(ledger) == ["2026-01-07T04:00:00Z", "2026-01-07T05:00:00Z"]


async def test_a_tick_that_cannot_be_submitted_for_a_minute_is_reported(
    unopened: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(datetime(2026, 1, 7, 2, 59, tzinfo=UTC), datetime(2026, 1, 7, 4, 30, tzinfo=UTC))
    ledger = Ledger()
    ledger.failures = [StoreUnavailable("away")] * 61
    await run(unopened, "0 * * * *", "UTC", clock, ledger)
    assert "a cron tick was not submitted" in caplog.text
    assert ticks(ledger) == ["2026-01-07T04:00:00Z"]


@pytest.mark.parametrize("refusal", [InvalidInput("tags", "too many"), LookupError("no tenant")], ids=["store", "user"])
async def test_a_cron_that_is_refused_holds_up_no_other_and_does_not_stop_the_clock(
    unopened: Queue, caplog: pytest.LogCaptureFixture, refusal: Exception
) -> None:
    @unopened.job("refused")
    async def refused() -> None: ...

    @unopened.job("fine")
    async def fine() -> None: ...

    class OneRefused(Ledger):
        async def submit_call(self, call: Any, connection: Any, options: Mapping[str, Any]) -> None:
            if "* * * * *" in options["idempotency_key"]:
                raise refusal
            await super().submit_call(call, connection, options)

    clock = Clock(datetime(2026, 1, 7, 0, 0, 30, tzinfo=UTC), datetime(2026, 1, 7, 0, 4, 30, tzinfo=UTC))
    ledger = OneRefused()
    crons = [Cron("* * * * *", "UTC", refused), Cron("*/2 * * * *", "UTC", fine)]
    with pytest.raises(asyncio.CancelledError):
        await keep_time(ledger, crons, now=clock.now, sleep=clock.sleep)
    assert ticks(ledger) == ["2026-01-07T00:02:00Z", "2026-01-07T00:04:00Z"]
    assert caplog.text.count("a cron tick was not submitted") == 4
    assert ("Traceback" in caplog.text) is isinstance(refusal, LookupError)


async def test_several_crons_keep_their_own_time(unopened: Queue) -> None:
    @unopened.job("a")
    async def a() -> None: ...

    @unopened.job("b")
    async def b() -> None: ...

    clock = Clock(datetime(2026, 1, 7, 0, 0, 30, tzinfo=UTC), datetime(2026, 1, 7, 0, 3, 30, tzinfo=UTC))
    ledger = Ledger()
    crons = [Cron("* * * * *", "UTC", a), Cron("*/2 * * * *", "UTC", b)]
    with pytest.raises(asyncio.CancelledError):
        await keep_time(ledger, crons, now=clock.now, sleep=clock.sleep)
    assert len(set(ledger.keys)) == len(ledger.keys) == 4
    assert [key.split(":")[1] for key in ledger.keys] == ["* * * * *"] * 2 + ["*/2 * * * *", "* * * * *"]


async def test_two_workers_that_keep_time_make_one_job_a_tick(queue: Queue) -> None:
    @queue.job("tick", priority="high")
    async def tick() -> None: ...

    cron = Cron("0 * * * *", "UTC", tick, {"priority": "low"})

    async def one_worker() -> None:
        clock = Clock(datetime(2026, 1, 7, 0, 30, tzinfo=UTC), datetime(2026, 1, 7, 5, 30, tzinfo=UTC))
        with pytest.raises(asyncio.CancelledError):
            await keep_time(submitter_of(queue), [cron], now=clock.now, sleep=clock.sleep)

    await asyncio.gather(one_worker(), one_worker(), one_worker())
    page = await queue.search(type="tick")
    assert len(page.jobs) == 5
    assert {job.priority for job in page.jobs} == {3}


def test_the_decorator_takes_a_function_or_a_job_type(unopened: Queue) -> None:
    @unopened.cron("0 3 * * *", tz="Europe/Berlin", type="nightly", priority="bulk")
    async def nightly() -> None: ...

    @unopened.cron("*/5 * * * *")
    @unopened.job("report", max_attempts=5)
    async def report(day: str = "today") -> None: ...

    assert [(cron.jobtype.type, cron.expression) for cron in core_of(unopened).crons] == [
        ("nightly", "0 3 * * *"), ("report", "*/5 * * * *"),
    ]  # fmt: skip
    assert core_of(unopened).definitions["nightly"].defaults == {"priority": "bulk"}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"expression": "every day"}, "cron"),
        ({"expression": "61 * * * *"}, "cron"),
        ({"expression": ""}, "cron"),
        ({"expression": None}, "cron"),
        ({"expression": "0 3 * * *", "tz": "Mars/Olympus"}, "tz"),
        ({"expression": "0 3 * * *", "tz": ""}, "tz"),
    ],
)
def test_a_wrong_expression_or_zone_is_named(unopened: Queue, arguments: dict[str, Any], field: str) -> None:
    async def handler() -> None: ...

    with pytest.raises(InvalidInput) as refused:
        unopened.cron(**arguments)(handler)
    assert refused.value.field == field


def test_a_periodic_job_cannot_need_arguments(unopened: Queue) -> None:
    async def needs(day: str) -> None: ...

    with pytest.raises(InvalidInput, match="runs without arguments") as refused:
        unopened.cron("0 3 * * *")(needs)
    assert refused.value.field == "cron"


async def test_two_crons_with_one_expression_on_one_type_are_refused_unless_their_names_differ(unopened: Queue) -> None:
    @unopened.job("tick")
    async def tick() -> None: ...

    unopened.cron("0 3 * * *")(tick)
    unopened.cron("0 3 * * *", tz="Europe/Berlin")(tick)
    with pytest.raises(InvalidInput, match=r"only one of the two .* name="):
        unopened.cron("0 3 * * *", priority="bulk")(tick)
    unopened.cron("0 3 * * *", priority="bulk", name="again")(tick)
    with pytest.raises(InvalidInput, match="only one of the two"):
        unopened.cron("0 3 * * *", name="again")(tick)
    assert len(core_of(unopened).crons) == 3


async def test_crons_that_differ_in_their_names_are_both_submitted_at_every_tick(unopened: Queue) -> None:
    @unopened.job("tick")
    async def tick() -> None: ...

    unopened.cron("0 3 * * *", name="one")(tick)
    unopened.cron("0 3 * * *", name="two", priority="bulk")(tick)
    async with unopened:
        clock = Clock(datetime(2026, 1, 7, 2, 50, tzinfo=UTC), datetime(2026, 1, 7, 4, 0, tzinfo=UTC))
        with pytest.raises(asyncio.CancelledError):
            await keep_time(submitter_of(unopened), core_of(unopened).crons, now=clock.now, sleep=clock.sleep)
        assert (await unopened.stats()).by_state["scheduled"] == 2


@pytest.mark.parametrize("name", ["", "x" * 101])
async def test_a_crons_name_is_neither_empty_nor_endless(unopened: Queue, name: str) -> None:
    @unopened.job("tick")
    async def tick() -> None: ...

    with pytest.raises(InvalidInput, match="name"):
        unopened.cron("0 3 * * *", name=name)(tick)
