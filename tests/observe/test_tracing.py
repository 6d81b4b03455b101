"""Traces: a span for every run of a job, in the trace it came with, and a collector that may be slow or gone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euterpe.observe.otlp import OtlpExporter
from euterpe.observe.tracing import (
    FinishedSpan,
    NoSpan,
    SpanContext,
    Tracer,
    context_of,
    current_span,
    parent_of,
    parse_traceparent,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.spans: list[FinishedSpan] = []

    def export(self, span: FinishedSpan) -> None:
        self.spans.append(span)


def run_job(tracer: Tracer, outcome: str = "completed", correlation_id: str | None = None, **tags: str) -> None:
    with tracer.job_span(
        queue="media", job_id="j1", job_type="t", attempt=2, correlation_id=correlation_id, tags=tags
    ) as span:
        span.set_outcome(outcome)


class Collector:
    """A real HTTP server that records what is posted and answers what it is told."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.arrived = threading.Semaphore(0)
        self.may_answer = threading.Event()
        self.may_answer.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.bodies.append(json.loads(body))
                collector.requests.append((self.path, dict(self.headers)))
                collector.arrived.release()
                collector.may_answer.wait(30)
                status, headers = collector.answers.pop(0) if collector.answers else (200, {})
                self.send_response(status)
                for key, value in {"Content-Length": "2", **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [span for body in self.bodies for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]

    def stop(self) -> None:
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.stop()


def attributes(span: dict[str, Any]) -> dict[str, str]:
    return {entry["key"]: next(iter(entry["value"].values())) for entry in span["attributes"]}


def test_a_job_without_a_parent_starts_a_trace_of_its_own() -> None:
    kept = Kept()
    run_job(Tracer(kept))
    run_job(Tracer(kept))
    first, second = kept.spans
    assert first.parent_span_id is None
    assert len(first.context.trace_id) == 32
    assert len(first.context.span_id) == 16
    assert first.context.trace_id != second.context.trace_id


def test_a_job_continues_the_trace_that_it_came_with() -> None:
    kept = Kept()
    run_job(Tracer(kept), correlation_id=PARENT)
    run_job(Tracer(kept), correlation_id="order 7", traceparent=PARENT)
    for span in kept.spans:
        assert span.context.trace_id == TRACE
        assert span.parent_span_id == SPAN
        assert span.context.span_id != SPAN


def test_an_unsampled_parent_is_followed_but_not_exported() -> None:
    kept = Kept()
    tracer = Tracer(kept)
    with tracer.job_span(queue="q", job_id="j", job_type="t", attempt=1, correlation_id=PARENT[:-2] + "00"):
        context = current_span()
    assert context is not None
    assert context.trace_id == TRACE
    assert kept.spans == []


def test_the_span_tells_queue_job_and_outcome() -> None:
    kept = Kept()
    run_job(Tracer(kept), "retrying")
    span = kept.spans[0]
    assert (span.queue, span.job_id, span.job_type, span.attempt) == ("media", "j1", "t", 2)
    assert (span.outcome, span.failed) == ("retrying", True)
    assert span.ended_unix_ns >= span.started_unix_ns


@pytest.mark.parametrize(
    ("outcome", "failed"),
    [("completed", False), ("released", False), ("cancelled", False), ("failed", True), ("dead_letter", True)],
)
def test_only_an_outcome_that_is_a_failure_marks_the_span_as_failed(outcome: str, failed: bool) -> None:
    kept = Kept()
    run_job(Tracer(kept), outcome)
    assert kept.spans[0].failed is failed


def test_an_exception_that_passes_through_is_named_by_its_type_alone() -> None:
    kept = Kept()
    with (
        pytest.raises(ValueError, match="secret"),
        Tracer(kept).job_span(queue="q", job_id="j", job_type="t", attempt=1),
    ):
        raise ValueError("secret")
    assert (kept.spans[0].outcome, kept.spans[0].failed) == ("ValueError", True)
    assert "secret" not in repr(kept.spans[0])
    assert current_span() is None


async def test_jobs_that_run_at_the_same_time_keep_their_spans_apart() -> None:
    tracer = Tracer(Kept())
    everyone_inside = asyncio.Barrier(5)

    async def job(number: int) -> tuple[str, str]:
        with tracer.job_span(queue="q", job_id=str(number), job_type="t", attempt=1) as span:
            await everyone_inside.wait()
            seen = current_span()
            assert seen is not None
            assert not isinstance(span, NoSpan)
            return seen.span_id, span.context.span_id

    pairs = await asyncio.gather(*(job(number) for number in range(5)))
    assert all(seen == own for seen, own in pairs)
    assert len({own for _, own in pairs}) == 5


def test_while_tracing_is_off_nothing_is_made() -> None:
    tracer = Tracer(None)
    first = tracer.job_span(queue="q", job_id="j", job_type="t", attempt=1, correlation_id=PARENT)
    with first as span:
        span.set_outcome("completed")
        assert current_span() is None
    assert first is tracer.job_span(queue="q", job_id="k", job_type="t", attempt=1)


def test_a_traceparent_survives_being_written_and_read() -> None:
    assert parse_traceparent(PARENT) == SpanContext(TRACE, SPAN, sampled=True)
    assert SpanContext(TRACE, SPAN, sampled=False).traceparent() == f"00-{TRACE}-{SPAN}-00"


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-extra",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        PARENT + "x" * 1000,
    ],
)
def test_a_broken_traceparent_is_no_parent(broken: str | None) -> None:
    assert parse_traceparent(broken) is None


def test_a_later_version_of_the_header_is_read_as_far_as_it_is_known() -> None:
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-01-more") == SpanContext(TRACE, SPAN)


@settings(deadline=None)
@given(st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8), st.booleans())
def test_every_valid_context_round_trips(trace: bytes, span: bytes, sampled: bool) -> None:
    context = context_of(trace.hex(), span.hex(), sampled=sampled)
    if context is None:
        assert not any(trace) or not any(span)
    else:
        assert parse_traceparent(context.traceparent()) == context


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_text_makes_the_parser_raise(text: str) -> None:
    parse_traceparent(text)
    parent_of(text, {"traceparent": text})


def test_ids_that_a_job_carries_as_fields_are_a_parent_too() -> None:
    assert context_of(TRACE, SPAN) == SpanContext(TRACE, SPAN)
    assert context_of(TRACE, None) is None
    assert context_of("", SPAN) is None


def test_spans_reach_the_collector_as_otlp(collector: Collector) -> None:
    exporter = OtlpExporter(collector.url, instance_id="pod:1")
    run_job(Tracer(exporter), "dead_letter", correlation_id=PARENT)
    exporter.close(timeout_s=30)
    path, headers = collector.requests[0]
    assert (path, headers["Content-Type"]) == ("/v1/traces", "application/json")
    resource = collector.bodies[0]["resourceSpans"][0]["resource"]["attributes"]
    assert attributes({"attributes": resource}) == {"service.name": "euterpe", "service.instance.id": "pod:1"}
    (span,) = collector.spans
    assert (span["traceId"], span["parentSpanId"], span["kind"]) == (TRACE, SPAN, 5)
    assert (span["name"], span["status"]) == ("job t", {"code": 2})
    assert attributes(span) == {
        "queue": "media", "job_id": "j1", "outcome": "dead_letter", "type": "t", "attempt": "2",
        "messaging.system": "euterpe", "messaging.operation.type": "process", "messaging.operation.name": "process",
        "messaging.destination.name": "media", "messaging.message.id": "j1", "error.type": "dead_letter",
    }  # fmt: skip
    assert int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]) > 10**18
    assert (exporter.sent, exporter.dropped) == (1, 0)


def test_a_path_and_a_login_in_the_endpoint_are_used(collector: Collector) -> None:
    exporter = OtlpExporter(collector.url.replace("//", "//ada:p%40w@") + "/otlp/v1/traces?x=1", instance_id="w")
    run_job(Tracer(exporter))
    exporter.close(timeout_s=30)
    path, headers = collector.requests[0]
    assert path == "/otlp/v1/traces?x=1"
    assert headers["Authorization"] == "Basic YWRhOnBAdw=="


def test_many_spans_travel_in_few_requests(collector: Collector) -> None:
    exporter = OtlpExporter(collector.url, instance_id="w", batch=100, interval_s=60)
    tracer = Tracer(exporter)
    for _ in range(1_000):
        run_job(tracer)
    exporter.close(timeout_s=30)
    assert len(collector.spans) == exporter.sent == 1_000
    assert len(collector.bodies) == 10
    assert len({span["spanId"] for span in collector.spans}) == 1_000


def test_when_the_collector_is_slow_spans_are_dropped_and_counted_and_jobs_do_not_wait(collector: Collector) -> None:
    collector.may_answer.clear()
    exporter = OtlpExporter(collector.url, instance_id="w", batch=10, queue_limit=50, interval_s=60)
    tracer = Tracer(exporter)
    for _ in range(10):
        run_job(tracer)
    assert collector.arrived.acquire(timeout=30), "the first batch is on its way and hangs"
    for _ in range(200):
        run_job(tracer)
    assert exporter.dropped == 150
    collector.may_answer.set()
    exporter.close(timeout_s=30)
    assert len(collector.spans) == exporter.sent == 60


def test_a_collector_that_is_overloaded_is_tried_again(collector: Collector) -> None:
    collector.answers = [(503, {"Retry-After": "0"}), (429, {})]
    exporter = OtlpExporter(collector.url, instance_id="w")
    run_job(Tracer(exporter))
    exporter.close(timeout_s=30)
    assert (exporter.sent, exporter.dropped) == (1, 0)
    assert len(collector.bodies) == 3
    assert collector.bodies[0] == collector.bodies[2]


@pytest.mark.parametrize("status", [400, 401, 404, 302])
def test_a_collector_that_refuses_is_not_tried_again_and_not_followed(collector: Collector, status: int) -> None:
    collector.answers = [(status, {"Location": collector.url + "/elsewhere"})]
    exporter = OtlpExporter(collector.url, instance_id="w")
    run_job(Tracer(exporter))
    exporter.close(timeout_s=30)
    assert (exporter.sent, exporter.dropped) == (0, 1)
    assert len(collector.bodies) == 1


def test_a_collector_that_is_not_there_costs_spans_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    gone = Collector()
    gone.stop()
    exporter = OtlpExporter(gone.url, instance_id="w")
    run_job(Tracer(exporter))
    exporter.close(timeout_s=30)
    assert (exporter.sent, exporter.dropped) == (0, 1)
    assert "the trace collector took no spans; they were dropped" in caplog.messages


def test_after_closing_spans_are_counted_as_dropped(collector: Collector) -> None:
    exporter = OtlpExporter(collector.url, instance_id="w")
    exporter.close(timeout_s=30)
    run_job(Tracer(exporter))
    assert (exporter.sent, exporter.dropped) == (0, 1)


FORKS = """
import os, sys
from euterpe.observe.otlp import OtlpExporter
from euterpe.observe.tracing import Tracer

def run_job(outcome):
    with tracer.job_span(queue="q", job_id="j", job_type="t", attempt=1) as span:
        span.set_outcome(outcome)

exporter = OtlpExporter(sys.argv[1], instance_id="w", interval_s=60)
tracer = Tracer(exporter)
run_job("parent")
child = os.fork()
if child == 0:
    run_job("child")
    exporter.close(timeout_s=30)
    os._exit(0)
os.waitpid(child, 0)
exporter.close(timeout_s=30)
"""


def test_a_forked_child_sends_its_own_spans_and_not_its_parents(collector: Collector) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS, collector.url], check=True, timeout=60)
    assert [attributes(span)["outcome"] for span in collector.spans] == ["child", "parent"]
