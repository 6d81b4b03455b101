"""Every attempt is a span: of `queue.work()` in a user's process too, over HTTP too, in the trace its job came with."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from euterpe.backends.engines import connect
from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.errors import PermanentError, TemporaryError
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.observe.job_spans import job_spans, tracing_of
from euterpe.queue.queue import Queue, core_of
from euterpe.worker.context import Context
from tests.conformance.clock import FrozenClock
from tests.observe.test_tracing import PARENT, SPAN, TRACE, Collector, attributes
from tests.server.plane import running_plane
from tests.worker.floor import in_state
from tests.worker.inline import AT_ONCE, working


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setenv("OBSERVABILITY_TRACING_ENABLED", "true")
    monkeypatch.setenv("OBSERVABILITY_TRACING_ENDPOINT", collector.url)
    yield collector
    collector.stop()


def spans_of(collector: Collector) -> list[dict[str, Any]]:
    """Each as its ids and attributes."""
    found = []
    for span in collector.spans:
        found.append({**attributes(span), "trace": span["traceId"], "parent": span.get("parentSpanId")})
    return found


def register(queue: Queue) -> None:
    @queue.job("completes")
    async def completes() -> None: ...

    @queue.job("retries", max_attempts=2, backoff=AT_ONCE)
    async def retries() -> None:
        raise TemporaryError("later")

    @queue.job("fails")
    def fails() -> None:
        raise PermanentError("never")

    @queue.job("hangs", timeout="50ms", max_attempts=1)
    async def hangs() -> None:
        await asyncio.Event().wait()

    @queue.job("is_cancelled")
    async def is_cancelled(ctx: Context) -> None:
        await queue.cancel(ctx.job_id)
        await asyncio.Event().wait()


async def test_the_outcome_of_a_span_is_the_word_that_its_attempt_is_closed_with(
    sqlite_url: str, collector: Collector
) -> None:
    queue = Queue(sqlite_url)
    register(queue)
    closed: dict[tuple[str, str], str | None] = {}
    async with working(queue, lease="5s"):
        jobs = [await queue.submit(name) for name in ("completes", "retries", "fails", "hangs", "is_cancelled")]
        for job in jobs:
            await job.wait("30s")
            for attempt in await queue.attempts(job.id):
                closed[job.id, str(attempt.number)] = attempt.outcome
    spans = spans_of(collector)
    assert {(span["job_id"], str(span["attempt"])): span["outcome"] for span in spans} == closed
    assert set(closed.values()) == {"completed", "temporary", "permanent", "timeout", "cancelled"}
    for span in spans:
        assert {"queue", "job_id", "outcome", "type", "attempt"} <= span.keys()
        assert span["queue"] == span["messaging.destination.name"] == "default"
        assert span["job_id"] == span["messaging.message.id"]
        assert (span["messaging.system"], span["messaging.operation.type"]) == ("euterpe", "process")
        assert span.get("error.type") == (None if span["outcome"] in ("completed", "cancelled") else span["outcome"])


async def test_spans_that_a_handler_makes_with_opentelemetry_nest_under_its_attempt(
    sqlite_url: str, collector: Collector
) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("shop")
    queue = Queue(sqlite_url)

    @queue.job("async")
    async def on_the_loop() -> None:
        with tracer.start_as_current_span("on the loop"):
            await asyncio.sleep(0)

    @queue.job("thread")
    def in_a_thread() -> None:
        with tracer.start_as_current_span("in a thread"):
            pass

    async with working(queue):
        for job_type in ("async", "thread"):
            await (await queue.submit(job_type, tags={"traceparent": PARENT})).wait("20s")
    attempts = {span["spanId"]: attributes(span)["type"] for span in collector.spans}
    theirs = {span.name: span for span in kept.get_finished_spans()}
    for name, job_type in (("on the loop", "async"), ("in a thread", "thread")):
        span = theirs[name]
        assert span.parent is not None
        assert attempts[format(span.parent.span_id, "016x")] == job_type
        assert format(span.context.trace_id, "032x") == TRACE
    assert trace.get_current_span() is trace.INVALID_SPAN, "nothing stays behind"


async def test_a_released_attempt_is_a_span_too(sqlite_url: str, collector: Collector) -> None:
    queue = Queue(sqlite_url)
    begun = asyncio.Event()

    @queue.job("long")
    async def long() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with working(queue, grace="0s"):
        job = await queue.submit("long")
        await begun.wait()
    (span,) = spans_of(collector)
    assert (span["job_id"], span["outcome"]) == (job.id, "released")


@pytest.mark.parametrize("said", ["header", "tag", "correlation_id"])
async def test_a_submission_over_http_is_continued_by_the_span_of_its_attempt_also_in_an_http_worker(
    sqlite_url: str, collector: Collector, said: str
) -> None:
    other = f"00-{TRACE[::-1]}-{SPAN[::-1]}-01"
    body: dict[str, Any] = {"type": "completes", "payload": {}}
    headers = {"traceparent": PARENT if said == "header" else other}
    if said == "tag":
        body["tags"] = {"traceparent": PARENT}
    elif said == "correlation_id":
        body["correlation_id"] = PARENT
    async with running_plane(sqlite_url) as plane, plane.client() as client:
        answer = await client.post("/jobs", json=body, headers=headers)
        batch = await client.post("/jobs/batch", json={"jobs": [body]}, headers=headers)
        ids = {answer.json()["job_id"], batch.json()["jobs"][0]["job_id"]}
        queue = Queue(plane.base_url, token=await plane.key("submit", "read", "worker"))
        register(queue)
        async with working(queue):
            for job_id in ids:
                await in_state(queue, core_of(queue).handle_of_row(await core_of(queue).get(job_id)), State.COMPLETED)
    spans = spans_of(collector)
    assert {span["job_id"] for span in spans} == ids
    assert {(span["trace"], span["parent"], span["outcome"]) for span in spans} == {(TRACE, SPAN, "completed")}


async def test_a_control_plane_traces_the_attempts_of_workers_that_do_not_trace_themselves(
    sqlite_url: str, collector: Collector
) -> None:
    """One claims with plain requests, as a worker in any language; the other is ours, which traces and says so."""
    async with AsyncExitStack() as stack:
        trace = await stack.enter_async_context(job_spans(tracing_of(os.environ), "plane"))
        plane = await stack.enter_async_context(running_plane(sqlite_url, trace=trace))
        client = await stack.enter_async_context(plane.client())
        jobs = [(await client.post("/jobs", json={"type": "completes", "payload": {}})).json() for _ in range(2)]
        for end in ("complete", "fail"):
            claimed = (
                await client.post("/internal/worker/claim", json={"worker_id": "bash", "streams": ["default"]})
            ).json()
            report: dict[str, Any] = {name: claimed[name] for name in ("job_id", "attempt_id", "lease_token")}
            report["worker_id"] = "bash"
            if end == "fail":
                report["error"] = {"code": "odd", "message": "odd", "retryable": False}
            assert (await client.post(f"/internal/worker/{end}", json=report)).status_code == 200
        queue = Queue(plane.base_url, token=await plane.key("submit", "read", "worker"))
        register(queue)
        async with working(queue):
            own = await queue.submit("completes")
            await own.result("20s")
    spans = sorted((span["job_id"], span["outcome"]) for span in spans_of(collector))
    by_plane = {job["job_id"] for job in jobs}
    assert {job_id for job_id, _ in spans} == by_plane | {own.id}
    assert len(spans) == 3
    assert sorted(outcome for job_id, outcome in spans if job_id in by_plane) == ["completed", "permanent"]


async def test_a_retried_submission_of_another_span_is_the_same_request(sqlite_url: str) -> None:
    body = {"type": "completes", "payload": {}, "idempotency_key": "once"}
    async with running_plane(sqlite_url) as plane, plane.client() as client:
        first = await client.post("/jobs", json=body, headers={"traceparent": PARENT})
        again = await client.post("/jobs", json=body, headers={"traceparent": f"00-{TRACE}-{SPAN[::-1]}-01"})
        broken = await client.post("/jobs", json=body, headers={"traceparent": "00-zz"})
    assert first.status_code == again.status_code == broken.status_code == 202
    assert first.content == again.content == broken.content


async def test_a_worker_whose_spans_cannot_be_opened_still_runs_its_jobs(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)
    register(queue)

    def broken(_: object) -> Any:
        raise RuntimeError("no span")

    async with working(queue, trace=broken):
        ended = await (await queue.submit("completes")).wait("20s")
    assert ended.state is State.COMPLETED


async def test_log_lines_about_an_attempt_carry_the_ids_of_its_span(
    sqlite_url: str, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "euterpe")
    queue = Queue(sqlite_url)
    register(queue)
    async with working(queue, lease="5s"):
        for name in ("retries", "fails"):
            await (await queue.submit(name)).wait("30s")
    told = {(r.__dict__["job_id"], r.__dict__["attempt"]): r.__dict__ for r in caplog.records if "job_id" in r.__dict__}
    spans = {(attributes(span)["job_id"], int(attributes(span)["attempt"])): span for span in collector.spans}
    assert told.keys() == spans.keys()
    assert len(told) == 3
    for attempt, line in told.items():
        assert (line["trace_id"], line["span_id"]) == (spans[attempt]["traceId"], spans[attempt]["spanId"])


async def test_without_spans_the_lines_carry_the_trace_that_the_job_came_with(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "euterpe")
    queue = Queue(sqlite_url)
    register(queue)
    async with working(queue):
        await (await queue.submit("fails", tags={"traceparent": PARENT})).wait("30s")
    (line,) = [record.__dict__ for record in caplog.records if "job_id" in record.__dict__]
    assert (line["trace_id"], line["span_id"]) == (TRACE, SPAN)


@pytest.mark.parametrize("engine_url", ["sqlite_url", "fresh_postgres_url"])
async def test_the_line_about_a_lost_workers_job_carries_its_claim_version(
    engine_url: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FrozenClock()
    backend = connect(request.getfixturevalue(engine_url), clock=clock)
    await backend.open()
    await backend.store.submit(Submission(type="t", max_attempts=1))
    (claim,) = await backend.store.claim(ClaimRequest(worker_id="w", limit=1))
    clock.advance(hours=1)
    await backend.store.sweeps.urgent()
    await backend.close()
    (line,) = [record.__dict__ for record in caplog.records if "job_id" in record.__dict__]
    assert (line["job_id"], line["claim_version"]) == (claim.job.id, 1)
