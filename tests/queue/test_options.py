"""Every option is checked where it is said, and the wrong one is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from euterpe.model.errors import InvalidInput, PayloadTooLarge
from euterpe.model.submitting.submission import PAYLOAD_LIMIT, Submission
from euterpe.queue.definition.job_type import submission_of_call
from euterpe.queue.queue import Queue, core_of, submitter_of

ANY_ID = "2f1cf4ac-6b7e-4d7c-9a52-5f2f8e0b3a11"


def named_lambda(n: int, initial_us: int, max_us: int) -> int:
    return initial_us * n


WRONG: list[tuple[str, Any, str]] = [
    ("queue", "", "queue"),
    ("queue", "x" * 201, "queue"),
    ("queue", 7, "queue"),
    ("queue", "a\x00b", "queue"),
    ("priority", "urgent", "priority"),
    ("priority", 5, "priority"),
    ("priority", 1.5, "priority"),
    ("priority", True, "priority"),
    ("delay", "5", "delay"),
    ("delay", "-5s", "delay"),
    ("delay", "soon", "delay"),
    ("delay", True, "delay"),
    ("delay", float("nan"), "delay"),
    ("run_at", datetime(2026, 1, 1), "run_at"),  # noqa: DTZ001  # the mistake under test
    ("run_at", "tomorrow", "run_at"),
    ("run_at", float("inf"), "run_at"),
    ("run_at", True, "run_at"),
    ("max_attempts", 0, "max_attempts"),
    ("max_attempts", "3", "max_attempts"),
    ("max_attempts", 1001, "max_attempts"),
    ("timeout", "0s", "timeout"),
    ("timeout", "forever", "timeout"),
    ("visibility", "0s", "visibility"),
    ("lifetime", "-1s", "lifetime"),
    ("idempotency_window", "soon", "idempotency_window"),
    ("idempotency_window", 0, "idempotency_window"),
    ("backoff", "sideways", "backoff.strategy"),
    ("backoff", "custom", "backoff.strategy"),
    ("backoff", {"initial": "soon"}, "backoff.initial"),
    ("backoff", {"max": "1s", "initial": "1m"}, "backoff.max"),
    ("backoff", {"multiplier": "two"}, "backoff.multiplier"),
    ("backoff", {"multiplier": 0.5}, "backoff.multiplier"),
    ("backoff", {"jitter": 2}, "backoff.jitter"),
    ("backoff", {"colour": 1}, "backoff.colour"),
    ("backoff", 5, "backoff"),
    ("backoff", lambda n, a, b: 1, "backoff"),
    ("retry_on_timeout", "no", "retry_on_timeout"),
    ("retry_on_system", 0, "retry_on_system"),
    ("idempotency_key", "", "idempotency_key"),
    ("idempotency_key", "k" * 257, "idempotency_key"),
    ("idempotency_key", 7, "idempotency_key"),
    ("correlation_id", 7, "correlation_id"),
    ("correlation_id", "x" * 257, "correlation_id"),
    ("tags", ["a"], "tags"),
    ("tags", "team", "tags"),
    ("tags", {"team": 1}, "tags.team"),
    ("tags", {f"t{i}": "x" for i in range(65)}, "tags"),
    ("depends_on", ANY_ID, "depends_on"),
    ("depends_on", 7, "depends_on"),
    ("depends_on", ["no id"], "depends_on"),
    ("depends_on", [None], "depends_on"),
    ("dependency", "before", "dependency"),
    ("dependency", "fan_out", "dependency"),
    ("callback_url", "ftp://example.org", "callback_url"),
    ("callback_url", 7, "callback_url"),
    ("callback_events", "some", "callback_events"),
    ("unique_key", "", "unique_key"),
    ("unique", "always", "unique"),
    ("concurrency_limit", 2, "concurrency_limit"),
    ("stages", "claimed", "stages"),
    ("stages", 7, "stages"),
    ("stages", ["fetching"], "stages"),
    ("stages", ["claimed", "a", "a"], "stages"),
    ("colour", "red", "colour"),
]


@pytest.mark.parametrize(("option", "value", "field"), WRONG, ids=[f"{o}={str(v)[:20]}" for o, v, _ in WRONG])
def test_a_wrong_option_of_a_submission_is_named(unopened: Queue, option: str, value: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        submitter_of(unopened).make_submission("any.type", {}, **{option: value})
    assert refused.value.field == field


NOT_FOR_TYPES = ("concurrency_limit",)  # there it stands for a limit of the type


@pytest.mark.parametrize(("option", "value", "field"), [w for w in WRONG if w[0] not in NOT_FOR_TYPES])
def test_a_wrong_default_of_a_job_type_is_named_at_the_decorator(
    unopened: Queue, option: str, value: Any, field: str
) -> None:
    async def handler() -> None: ...

    with pytest.raises(InvalidInput) as refused:
        unopened.job("any.type", **{option: value})(handler)
    assert refused.value.field.startswith(field.split(".", maxsplit=1)[0])
    assert core_of(unopened).handlers.types == ()


def test_a_delay_and_a_time_contradict_each_other(unopened: Queue) -> None:
    with pytest.raises(InvalidInput) as refused:
        submitter_of(unopened).make_submission("any.type", {}, delay="5m", run_at=datetime.now(UTC))
    assert refused.value.field == "run_at"


def test_a_handler_cannot_ask_for_more_than_the_systems_timeout(unopened: Queue) -> None:
    decorate = unopened.job("any.type", timeout="31m")
    with pytest.raises(InvalidInput) as refused:
        decorate(lambda: None)
    assert refused.value.field == "timeout"


@pytest.mark.parametrize("payload", [object(), {"x": object()}, "\ud800"])
def test_a_payload_that_is_no_json_is_refused(unopened: Queue, payload: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        submitter_of(unopened).make_submission("any.type", payload)
    assert refused.value.field == "payload"


def test_a_payload_over_the_limit_is_refused_and_the_limit_may_be_raised(sqlite_url: str) -> None:
    large = "x" * 1_000_000
    with pytest.raises(PayloadTooLarge) as refused:
        submitter_of(Queue(sqlite_url)).make_submission("any.type", {"x": large})
    assert refused.value.field == "payload"
    assert (
        submitter_of(Queue(sqlite_url, payload_limit=2_000_000)).make_submission("any.type", {"x": large}).type
        == "any.type"
    )
    with pytest.raises(InvalidInput):
        Queue(sqlite_url, payload_limit=16_000_001)


def test_options_are_read_as_people_write_them(unopened: Queue) -> None:
    said = submitter_of(unopened).make_submission(
        "any.type",
        {"x": 1},
        queue="reports",
        priority="bulk",
        delay="1h30m",
        max_attempts=7,
        timeout=timedelta(minutes=2),
        visibility=90,
        lifetime="1d",
        backoff={"strategy": "linear", "initial": "5s", "max": "1m", "jitter": 0},
        retry_on_timeout=False,
        idempotency_key="r7",
        idempotency_window="2h",
        correlation_id="trace",
        tags={"team": "a"},
        callback_url="https://example.org/hook",
        callback_events="terminal",
        concurrency_key="customer:7",
        concurrency_limit=2,
        stages=["claimed", "printing"],
    )
    assert (said.queue, said.priority, said.delay_us, said.max_attempts) == ("reports", 4, 5_400_000_000, 7)
    assert (said.execution_timeout_us, said.visibility_us, said.lifetime_us) == (
        120_000_000,
        90_000_000,
        86_400_000_000,
    )
    assert (said.retry.backoff.strategy, said.retry.backoff.initial_us, said.retry.on_timeout) == (
        "linear", 5_000_000, False,
    )  # fmt: skip
    assert (said.idempotency_key, said.correlation_id, said.tags) == ("r7", "trace", {"team": "a"})
    assert said.idempotency_window_us == 7_200_000_000
    assert (said.callback_url, said.callback_events) == ("https://example.org/hook", "terminal")
    assert (said.concurrency_key, said.concurrency_limit) == ("customer:7", 2)
    assert said.stages == ("claimed", "printing")


def test_none_means_not_said_and_takes_a_default_back(unopened: Queue) -> None:
    @unopened.job("any.type", delay="5m", priority="high")
    async def handler() -> None: ...

    said = submission_of_call(handler.options(delay=None).with_args(), {}, PAYLOAD_LIMIT)
    assert (said.delay_us, said.priority) == (0, 1)


def test_options_of_a_submit_win_over_those_of_the_type(unopened: Queue) -> None:
    @unopened.job("any.type", priority="high", tags={"a": "1"}, max_attempts=9)
    async def handler() -> None: ...

    call = handler.options(priority="low").with_args().with_options(max_attempts=2)
    said: Submission = submitter_of(unopened).make_submission(call, correlation_id="c")
    assert (said.priority, said.max_attempts, said.tags, said.correlation_id) == (3, 2, {"a": "1"}, "c")
    by_name = submitter_of(unopened).make_submission("any.type", {}, priority="bulk")
    assert (by_name.priority, by_name.max_attempts) == (4, 9)


def test_a_limit_of_a_type_needs_no_key(unopened: Queue) -> None:
    @unopened.job("any.type", concurrency_limit=2)
    async def handler() -> None: ...

    said = submission_of_call(handler.with_args(), {}, PAYLOAD_LIMIT)
    assert (said.concurrency_key, said.concurrency_limit) == ("type:any.type", 2)


async def test_an_option_among_the_arguments_is_pointed_out(unopened: Queue) -> None:
    @unopened.job("any.type")
    async def handler(report_id: int) -> None: ...

    with pytest.raises(InvalidInput) as refused:
        await handler.submit(report_id=7, delay="5m")  # type: ignore[call-arg]  # the mistake under test
    assert refused.value.field == "delay"
    assert "handler.options(delay=...).submit(...)" in str(refused.value)


def test_a_backoff_may_be_a_function_with_a_name(unopened: Queue) -> None:
    said = submitter_of(unopened).make_submission("any.type", {}, backoff=named_lambda)
    assert said.retry.backoff.name == f"{__name__}.named_lambda"
    assert said.retry.backoff.base_delay_us(3) == 3_000_000


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mysql://localhost/x", "mysql"),
        ("jobs.db", "jobs.db"),
        ("sqlite://jobs.db", "sqlite:///jobs.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:///jobs.db?schema=jobs", "remove ?schema=jobs"),
    ],
)
def test_a_url_that_names_no_engine_is_refused_with_the_ways_to_write_one(url: str, word: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Queue(url)
    assert refused.value.field == "url"
    assert word in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("concurrency", 0),
        ("concurrency", "many"),
        ("concurrency", True),
        ("queues", "default"),
        ("queues", []),
        ("queues", [7]),
        ("lease", "10ms"),
        ("grace", "soon"),
        ("poll", "0s"),
        ("batch", 0),
        ("colour", "red"),
    ],
)
async def test_a_wrong_setting_of_a_worker_is_named(unopened: Queue, setting: str, value: Any) -> None:
    @unopened.job("any.type")
    async def handler() -> None: ...

    with pytest.raises(InvalidInput) as refused:
        await unopened.work(**{setting: value})
    assert refused.value.field == setting


async def test_a_queue_without_job_types_has_nothing_to_work_on(unopened: Queue) -> None:
    with pytest.raises(InvalidInput, match="no job types"):
        await unopened.work()
