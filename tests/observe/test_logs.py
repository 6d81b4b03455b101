"""Logs: one JSON object a line, agreed keys only, and nothing in them that was told in confidence."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from enum import StrEnum
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euterpe.model.errors import EuterpeError
from euterpe.observe.log_context import running_attempt
from euterpe.observe.logs import (
    ALLOWED_KEYS,
    AllowList,
    ForbiddenLogKey,
    bind,
    configure_logging,
    scrub,
    timestamp,
)
from euterpe.observe.tracing import FinishedSpan, Tracer

CANARY = "c4n4ry-s3cret"
OURS = logging.getLogger("euterpe.test")
THEIRS = logging.getLogger("users.app")

OF_THE_DOCUMENTS = (
    "level ts msg trace_id span_id job_id queue worker_id request_id namespace claim_version event_id".split()  # noqa: SIM905
)


@dataclass
class Log:
    stream: io.StringIO
    gate: AllowList

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


OpenLog = Callable[..., Log]


@pytest.fixture
def open_log() -> Iterator[OpenLog]:
    root, ours = logging.getLogger(), logging.getLogger("euterpe")
    before = (list(root.handlers), root.level, ours.level)

    def begin(level: str = "info", log_format: str = "auto", *, strict: bool = False) -> Log:
        root.handlers.clear()  # pytest's own would format every record too, in its own way
        stream = io.StringIO()
        return Log(stream, configure_logging(level, log_format, strict=strict, stream=stream))

    yield begin
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def test_a_record_is_one_json_object_on_one_line(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    OURS.info("job settled", extra={"job_id": "j1", "queue": "media", "claim_version": 3, "state": "completed"})
    OURS.warning("lease lost")
    assert log.lines[0] | {"ts": ""} == {
        "ts": "",
        "level": "info",
        "msg": "job settled",
        "logger": "euterpe.test",
        "job_id": "j1",
        "queue": "media",
        "claim_version": 3,
        "state": "completed",
    }
    assert log.lines[1]["level"] == "warning"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", log.lines[0]["ts"])


def test_the_documents_keys_are_all_allowed() -> None:
    assert set(OF_THE_DOCUMENTS) <= ALLOWED_KEYS


def test_no_allowed_key_has_a_name_that_invites_a_secret() -> None:
    inviting = {
        "payload",
        "result",
        "error",
        "message",
        "url",
        "headers",
        "body",
        "token",
        "password",
        "tags",
        "args",
    }
    assert not ALLOWED_KEYS & inviting


def test_in_development_a_forbidden_key_raises_at_the_call_that_used_it(open_log: OpenLog) -> None:
    open_log(strict=True)
    with pytest.raises(ForbiddenLogKey, match=r"'payload' at test_logs\.py:\d+"):
        OURS.info("job settled", extra={"payload": {"a": 1}})
    assert issubclass(ForbiddenLogKey, EuterpeError)


def test_in_production_a_forbidden_key_is_dropped_and_counted(open_log: OpenLog) -> None:
    log = open_log(strict=False)
    for _ in range(3):
        OURS.info("job settled", extra={"payload": CANARY, "job_id": "j1"})
    assert [line["job_id"] for line in log.lines] == ["j1"] * 3
    assert CANARY not in log.text
    assert log.gate.dropped == {"payload": 3}


def test_the_count_of_dropped_keys_does_not_grow_without_bound(open_log: OpenLog) -> None:
    log = open_log(strict=False)
    for number in range(300):
        OURS.info("job settled", extra={f"made_up_{number}": 1})
    assert len(log.gate.dropped) <= 101
    assert log.gate.dropped.total() == 300


@pytest.mark.parametrize("value", [{"a": CANARY}, [CANARY], (CANARY,), CANARY.encode(), ValueError(CANARY), object()])
def test_a_value_that_may_hold_a_payload_is_refused_under_any_key(open_log: OpenLog, value: object) -> None:
    open_log(strict=True)
    with pytest.raises(ForbiddenLogKey, match="job_id"):
        OURS.info("job settled", extra={"job_id": value})
    log = open_log(strict=False)
    OURS.info("job settled", extra={"job_id": value})
    assert CANARY not in log.text


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (7, 7),
        (1.5, 1.5),
        (True, True),
        (None, None),
        (Colour.RED, "red"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ("x" * 1000, "x" * 255 + "…"),
        ("\ud800", "?"),
        ("é", "é"),
    ],
)
def test_plain_values_are_written_as_they_are(open_log: OpenLog, value: object, shown: object) -> None:
    log = open_log(strict=True)
    OURS.info("job settled", extra={"job_id": value})
    assert log.lines[0]["job_id"] == shown


def test_our_messages_are_constants(open_log: OpenLog) -> None:
    open_log(strict=True)
    with pytest.raises(ForbiddenLogKey, match="arguments"):
        OURS.info("job %s settled", CANARY)
    log = open_log(strict=False)
    OURS.info("job %s settled", CANARY)
    assert log.lines[0]["msg"] == "job %s settled"
    assert log.gate.dropped == {"%-arguments": 1}


def test_numbers_may_be_filled_into_our_messages(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    OURS.info("stopping: %d running jobs may finish in %.1f s", 3, 30)
    assert log.lines[0]["msg"] == "stopping: 3 running jobs may finish in 30.0 s"


@pytest.mark.parametrize("args", [(CANARY,), (3, CANARY), ({"count": CANARY},), (ValueError(CANARY),)])
def test_anything_but_numbers_may_not(open_log: OpenLog, args: tuple[object, ...]) -> None:
    open_log(strict=True)
    with pytest.raises(ForbiddenLogKey):
        OURS.info("said", *args)
    log = open_log(strict=False)
    OURS.info("%s %s" if len(args) == 2 else "%s", *args)
    assert CANARY not in log.text


def test_an_exception_leaves_its_type_and_its_place_but_not_its_message(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    try:
        raise ValueError(CANARY) from RuntimeError(CANARY)
    except ValueError:
        OURS.exception("handler failed", extra={"job_id": "j1"})
    line = log.lines[0]
    assert line["exc_type"] == "ValueError"
    assert re.fullmatch(r"test_logs\.py:\d+", line["exc_at"])
    assert CANARY not in log.text


def test_the_place_is_the_innermost_first_and_without_the_machines_folders(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    try:
        json.loads("{")
    except ValueError:
        OURS.exception("handler failed")
    assert re.fullmatch(r"decoder\.py:\d+ < decoder\.py:\d+ < __init__\.py:\d+", log.lines[0]["exc_at"])


def test_at_debug_the_message_of_an_exception_shows_scrubbed(open_log: OpenLog) -> None:
    log = open_log("debug", strict=True)
    try:
        raise ConnectionError(f"postgresql://ada:{CANARY}@db is gone")
    except ConnectionError:
        OURS.debug("store unavailable", exc_info=True)
    assert log.lines[0]["exc_msg"] == "postgresql://***db is gone"
    assert CANARY not in log.text


@pytest.mark.parametrize(
    "said",
    [
        f"postgresql://ada:{CANARY}@db/x",
        f"Authorization: Bearer {CANARY}",
        f"password={CANARY}",
        f'{{"token": "{CANARY}"}}',
        f"api_key: {CANARY}",
        f"secret was whsec_{CANARY}",
    ],
)
def test_scrubbing_takes_out_what_looks_like_a_secret(said: str) -> None:
    assert CANARY not in scrub(said)


def test_a_line_break_in_a_message_does_not_make_two_lines(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    OURS.info('a\n{"level":"error","msg":"forged"}', extra={"job_id": "a\nb"})
    assert len(log.text.splitlines()) == 1


def test_configuring_twice_does_not_write_twice(open_log: OpenLog) -> None:
    first, second = open_log(), open_log()
    OURS.info("once")
    assert first.text == ""
    assert len(second.lines) == 1


@pytest.mark.parametrize(
    ("level", "heard"),
    [("debug", 4), ("info", 3), ("warn", 2), ("warning", 2), ("error", 1), ("critical", 0)],
)
def test_the_level_decides_what_is_heard(open_log: OpenLog, level: str, heard: int) -> None:
    log = open_log(level)
    for say in (OURS.debug, OURS.info, OURS.warning, OURS.error):
        say("said")
    assert len(log.lines) == heard


def test_a_users_own_records_pass_as_they_are(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    odd = object()
    long = "x" * 5_000
    THEIRS.info("rendering %s", long, extra={"customer": {"id": 7}, "level": "gold", "odd": odd})
    THEIRS.info("broken", extra={"text": "\ud800"})
    try:
        raise ValueError("card 4711 refused")
    except ValueError:
        THEIRS.exception("no luck")
    first, broken, second = log.lines
    assert (first["msg"], first["logger"], first["level"]) == (f"rendering {long}", "users.app", "info")
    assert (first["customer"], first["extra_level"], first["odd"]) == ({"id": 7}, "gold", repr(odd))
    assert broken["text"] == "?"
    assert "ValueError: card 4711 refused" in second["traceback"]
    assert log.gate.dropped == {}


def test_lines_of_a_handler_carry_its_job(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    stub: Any = SimpleNamespace(job_id="j1", type="t", queue="media", attempt=3)  # what a line reads of an attempt

    async def handler() -> None:
        running_attempt.set(stub)
        THEIRS.info("theirs")
        THEIRS.info("of another job", extra={"job_id": "j2"})
        OURS.info("ours")

    asyncio.run(handler())
    THEIRS.info("outside")
    theirs, another, ours, outside = log.lines
    for line in (theirs, ours):
        assert (line["job_id"], line["type"], line["queue"], line["attempt"]) == ("j1", "t", "media", 3)
    assert another["job_id"] == "j2"
    assert "job_id" not in outside


def test_no_line_is_written_twice_where_the_app_has_a_handler_of_its_own(open_log: OpenLog) -> None:
    log = open_log()
    apps = io.StringIO()
    root = logging.getLogger()
    with redirect_stderr(apps):
        root.handlers[:] = [logging.StreamHandler()]
        configure_logging("info", "json", strict=True, stream=log.stream)
        THEIRS.warning("theirs")
        OURS.info("ours")
        logging.getLogger("euterpe").handlers.clear()
        logging.getLogger("euterpe").propagate = True
    assert apps.getvalue() == "theirs\n"
    assert [line["msg"] for line in log.lines] == ["ours"]


def test_debug_is_for_us_and_not_for_every_library(open_log: OpenLog) -> None:
    log = open_log("debug")
    THEIRS.debug("chatter")
    assert log.text == ""


async def test_what_asyncio_says_about_a_lost_exception_keeps_the_exceptions_secret(
    open_log: OpenLog,
) -> None:
    log = open_log(strict=True)

    async def fail() -> None:
        raise ValueError(CANARY)

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()
    assert log.lines[0]["msg"] == "Task exception was never retrieved"
    assert log.lines[0]["exc_type"] == "ValueError"
    assert CANARY not in log.text


def test_bound_keys_are_on_every_line_and_the_calls_own_win(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    bound = bind(OURS, worker_id="w1", queue="media")
    bound.info("claimed", extra={"queue": "mail", "count": 3})
    bound.info("idle")
    assert [(line["worker_id"], line["queue"]) for line in log.lines] == [("w1", "mail"), ("w1", "media")]


@pytest.mark.parametrize("key", ["payload", "level", "msg"])
def test_binding_a_forbidden_key_raises_everywhere(key: str) -> None:
    with pytest.raises(ForbiddenLogKey, match=key):
        bind(OURS, **{key: "x"})


class NoSink:
    def export(self, span: FinishedSpan) -> None:
        """Nothing to do with it."""


def test_lines_inside_a_span_carry_its_ids(open_log: OpenLog) -> None:
    log = open_log(strict=True)
    with Tracer(NoSink()).job_span(queue="q", job_id="j", job_type="t", attempt=1) as span:
        OURS.info("inside")
    OURS.info("outside")
    context = span.context  # type: ignore[union-attr]
    assert (log.lines[0]["trace_id"], log.lines[0]["span_id"]) == (context.trace_id, context.span_id)
    assert "trace_id" not in log.lines[1]


def test_people_get_a_readable_line_that_cannot_draw_on_their_terminal(open_log: OpenLog) -> None:
    log = open_log("info", "human", strict=True)
    OURS.info("job settled", extra={"job_id": "\x1b[2Jj1", "queue": "a\nb"})
    assert re.fullmatch(r"\d\d:\d\d:\d\d info     job settled job_id=\ufffd\[2Jj1 queue=a\ufffdb\n", log.text)


def test_a_pipe_gets_json_and_a_terminal_gets_lines_for_people(open_log: OpenLog) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    log = open_log()
    OURS.info("piped")
    assert log.lines
    terminal = Terminal()
    configure_logging("info", "auto", strict=True, stream=terminal)
    OURS.info("seen")
    assert not terminal.getvalue().startswith("{")


def test_a_record_that_cannot_be_written_is_replaced_and_does_not_spill(open_log: OpenLog) -> None:
    log = open_log(strict=False)
    THEIRS.info("needs %s and %s", CANARY)
    assert [line["msg"] for line in log.lines] == ["a log record could not be written"]
    assert CANARY not in log.text


def test_a_closed_stream_does_not_stop_the_worker(open_log: OpenLog, capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log()
    log.stream.close()
    OURS.info("nobody hears")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("at_s", "written"), [(0.0, "1970-01-01T00:00:00.000Z"), (1_700_000_000.1239, "2023-11-14T22:13:20.123Z")]
)
def test_times_are_utc_to_the_millisecond(at_s: float, written: str) -> None:
    assert timestamp(at_s) == written


@settings(deadline=None)
@given(key=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1), value=st.text())
def test_whatever_key_is_used_only_allowed_ones_come_out(key: str, value: str) -> None:
    record = logging.makeLogRecord({"name": "euterpe.x", "msg": "m", key: value})
    AllowList(strict=False).filter(record)
    assert set(record.euterpe_fields) <= ALLOWED_KEYS  # type: ignore[attr-defined]


@pytest.mark.parametrize("log_format", ["json", "human"])
def test_secrets_among_the_extras_of_a_users_record_are_hidden(open_log: OpenLog, log_format: str) -> None:
    log = open_log("info", log_format)
    nested = {"user": "ada", "credentials": {"x": CANARY}, "all": [{"Authorization": CANARY}]}
    THEIRS.info("signed in", extra={"password": CANARY, "api_key": CANARY, "account": nested, "tokens": 7})
    assert CANARY not in log.text
    assert "ada" in log.text
    assert "***" in log.text
    if log_format == "json":
        assert log.lines[0]["tokens"] == 7
