"""Sends finished spans to an OpenTelemetry collector: OTLP over HTTP, as JSON, from a thread of its own.

The wire format is one document of fixed shape, so this file replaces the SDK and all that it brings. The
queue is bounded: when the collector is away or too slow, spans are dropped and counted; no job ever waits.
"""

from __future__ import annotations

import base64
import http.client
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from euterpe.observe.tracing import FinishedSpan

_logger = logging.getLogger("euterpe.observe.otlp")

_CONSUMER: Final = 5
_STATUS_OK: Final = 1
_STATUS_ERROR: Final = 2
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_TRIES: Final = 3
_ANSWER_LIMIT_BYTES: Final = 64 * 1024
_LONGEST_PAUSE_S: Final = 10.0
_COMPLAIN_EVERY_S: Final = 60.0


class OtlpExporter:
    """A `SpanSink` that posts batches. `dropped` and `sent` count spans; `close` sends what is left."""

    def __init__(
        self,
        endpoint: str,
        *,
        instance_id: str,
        queue_limit: int = 4_096,
        batch: int = 512,
        interval_s: float = 1.0,
        timeout_s: float = 5.0,
    ) -> None:
        self._client = _Client(endpoint, timeout_s)
        self._instance_id = instance_id
        self._queue_limit = queue_limit
        self._batch = batch
        self._interval_s = interval_s
        self._complained_at_s = -_COMPLAIN_EVERY_S
        self.sent = 0
        self.dropped = 0
        self._thread: threading.Thread | None = None
        self._begin_in_this_process()

    def export(self, span: FinishedSpan) -> None:
        """Take a span; never blocks on the network."""
        if os.getpid() != self._pid:  # the thread, and whoever held the lock, stayed in the parent
            self._client.forget()
            self._begin_in_this_process()
        with self._wake:
            if self._closing or len(self._waiting) >= self._queue_limit:
                self.dropped += 1
                return
            self._waiting.append(span)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="euterpe-otlp", daemon=True)
                self._thread.start()
            elif len(self._waiting) == self._batch:
                self._wake.notify()

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what is waiting, for at most `timeout_s`, and stop."""
        with self._wake:
            self._closing = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _begin_in_this_process(self) -> None:
        self._pid = os.getpid()
        self._waiting: deque[FinishedSpan] = deque()
        self._wake = threading.Condition()
        self._thread = None
        self._closing = False

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closing or len(self._waiting) >= self._batch, self._interval_s)
                spans = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
                if not spans and self._closing:
                    return
            if spans:
                self._send(spans)

    def _send(self, spans: Sequence[FinishedSpan]) -> None:
        body = msgspec.json.encode(document(spans, self._instance_id))
        status, pause_s = 0, 0.5
        for left in reversed(range(_TRIES)):
            status, retry_after_s = self._client.post(body)
            if 200 <= status < 300:
                self.sent += len(spans)
                return
            if status not in _RETRYABLE and status != 0:
                break
            if left:
                with self._wake:  # closing cuts the pause short
                    self._wake.wait_for(lambda: self._closing, min(max(pause_s, retry_after_s), _LONGEST_PAUSE_S))
            pause_s *= 4
        with self._wake:
            self.dropped += len(spans)
        self._complain(status, len(spans))

    def _complain(self, status: int, count: int) -> None:
        now_s = time.monotonic()
        if now_s - self._complained_at_s >= _COMPLAIN_EVERY_S:
            self._complained_at_s = now_s
            _logger.warning(
                "the trace collector took no spans; they were dropped",
                extra={"status": status, "count": count},
            )


class _Client:
    """One kept connection to the collector. No redirects and no proxies: the endpoint is taken as written."""

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        parts = urlsplit(endpoint)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        self._path = parts.path if parts.path.strip("/") else "/v1/traces"
        if parts.query:
            self._path += f"?{parts.query}"
        self._headers = {"Content-Type": "application/json", "User-Agent": "euterpe"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"

    def post(self, body: bytes) -> tuple[int, float]:
        """(HTTP status, or 0 when nobody answered; the seconds of Retry-After, or 0)."""
        try:
            self._connection.request("POST", self._path, body, self._headers)
            answer = self._connection.getresponse()
            answer.read(_ANSWER_LIMIT_BYTES)
            if not answer.isclosed():  # more than anyone needs to hear
                self._connection.close()
            return answer.status, _seconds(answer.headers.get("Retry-After"))
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next post connects anew
            return 0, 0.0

    def forget(self) -> None:
        """In a forked child: close our copy of the parent's socket without saying goodbye on it."""
        self._connection.close()


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else 0.0


def document(spans: Sequence[FinishedSpan], instance_id: str) -> dict[str, Any]:
    """An ExportTraceServiceRequest: ids in hex, 64-bit integers as text, enums as numbers."""
    resource = [_text("service.name", "euterpe"), _text("service.instance.id", instance_id)]
    scope_spans = {"scope": {"name": "euterpe"}, "spans": [_span(span) for span in spans]}
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope_spans]}]}


def _span(span: FinishedSpan) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "traceId": span.context.trace_id,
        "spanId": span.context.span_id,
        "name": f"job {span.job_type}",
        "kind": _CONSUMER,
        "startTimeUnixNano": str(span.started_unix_ns),
        "endTimeUnixNano": str(span.ended_unix_ns),
        "attributes": [
            _text("queue", span.queue),
            _text("job_id", span.job_id),
            _text("outcome", span.outcome),
            _text("type", span.job_type),
            {"key": "attempt", "value": {"intValue": str(span.attempt)}},
            _text("messaging.system", "euterpe"),
            _text("messaging.operation.type", "process"),
            _text("messaging.operation.name", "process"),
            _text("messaging.destination.name", span.queue),
            _text("messaging.message.id", span.job_id),
            *([_text("error.type", span.outcome)] if span.failed else ()),
        ],
        "status": {"code": _STATUS_ERROR if span.failed else _STATUS_OK},
    }
    if span.parent_span_id is not None:
        encoded["parentSpanId"] = span.parent_span_id
    return encoded


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}
