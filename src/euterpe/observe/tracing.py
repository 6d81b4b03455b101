"""Traces: one span for every run of a job, as a child of whatever the job came with.

The parent travels as a W3C `traceparent`, in the job's tags or as its correlation id. A span that is open is
known to the logs, which add its ids. Sending spans away is `euterpe.observe.otlp`'s work; without an exporter
nothing is made and nothing is kept.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from euterpe.observe import otel_bridge

_TRACEPARENT: Final = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL
)
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_TRACEPARENT_LIMIT: Final = 256
_SAMPLED: Final = 1

_open_span: ContextVar[SpanContext | None] = ContextVar("euterpe_open_span", default=None)


@dataclass(frozen=True, slots=True)
class SpanContext:
    """What identifies a span everywhere: the trace it belongs to and its own id."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def log_keys(self) -> dict[str, str]:
        return {"trace_id": self.trace_id, "span_id": self.span_id}

    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def current_span() -> SpanContext | None:
    """The span that is open in this task or thread."""
    return _open_span.get()


def parse_traceparent(text: str | None) -> SpanContext | None:
    """The context in a `traceparent`, or None: by the W3C rules a broken one just starts a new trace."""
    if not text or len(text) > _TRACEPARENT_LIMIT:
        return None
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest):
        return None
    return context_of(trace_id, span_id, sampled=bool(int(flags, 16) & _SAMPLED))


def context_of(trace_id: str | None, span_id: str | None, *, sampled: bool = True) -> SpanContext | None:
    """The context of a job that carries `trace_id` and `span_id` as fields, as jobs in Redis lists do."""
    if not trace_id or not span_id or not _TRACE_ID.fullmatch(trace_id) or not _SPAN_ID.fullmatch(span_id):
        return None
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return SpanContext(trace_id, span_id, sampled)


def parent_of(correlation_id: str | None, tags: Mapping[str, str] | None) -> SpanContext | None:
    """The parent that a job brought along: the tag `traceparent`, else a correlation id that is one."""
    return parse_traceparent(tags.get("traceparent") if tags else None) or parse_traceparent(correlation_id)


@dataclass(frozen=True, slots=True)
class FinishedSpan:
    """One run of a job, as it is exported. It holds no payload, no result and no error message."""

    context: SpanContext
    parent_span_id: str | None
    started_unix_ns: int
    ended_unix_ns: int
    queue: str
    job_id: str
    job_type: str
    attempt: int
    outcome: str
    failed: bool


class SpanSink(Protocol):
    """Where finished spans go. Must return at once and never raise."""

    def export(self, span: FinishedSpan) -> None: ...


class JobSpan:
    """An open span; a context manager. Say `set_outcome` before it closes, else an exception tells."""

    __slots__ = (
        "_attempt",
        "_job_id",
        "_job_type",
        "_leave_otel",
        "_outcome",
        "_parent_span_id",
        "_queue",
        "_sink",
        "_started_ns",
        "_started_unix_ns",
        "_token",
        "context",
    )

    def __init__(
        self, sink: SpanSink, parent: SpanContext | None, queue: str, job_id: str, job_type: str, attempt: int
    ) -> None:
        self._sink = sink
        trace_id = parent.trace_id if parent else _random_hex(128)
        self.context = SpanContext(trace_id, _random_hex(64), parent.sampled if parent else True)
        self._parent_span_id = parent.span_id if parent else None
        self._queue, self._job_id, self._job_type, self._attempt = queue, job_id, job_type, attempt
        self._outcome = ""
        self._token: Token[SpanContext | None] | None = None
        self._leave_otel: Callable[[], object] | None = None
        self._started_unix_ns = time.time_ns()
        self._started_ns = time.perf_counter_ns()

    @property
    def log_keys(self) -> dict[str, str]:
        return self.context.log_keys()

    def set_outcome(self, outcome: str) -> None:
        """The word that the attempt is closed with: `completed`, `released`, a failure's category (`temporary`,
        `permanent`, `timeout`, `cancelled`, `system`), or `lost_lease`."""
        self._outcome = outcome

    def end(self, outcome: str) -> None:
        """For a run that nothing here is around: someone else told how it ended."""
        self._outcome = outcome
        self.__exit__(None, None, None)

    def __enter__(self) -> JobSpan:
        self._token = _open_span.set(self.context)
        self._leave_otel = otel_bridge.enter(self.context.trace_id, self.context.span_id, sampled=self.context.sampled)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave_otel is not None:
            self._leave_otel()
        if self._token is not None:
            _open_span.reset(self._token)
        if not self.context.sampled:
            return
        outcome = self._outcome or ("completed" if kind is None else kind.__name__)
        # The wall clock may be set back while a job runs; its length must not follow.
        ended_unix_ns = self._started_unix_ns + time.perf_counter_ns() - self._started_ns
        self._sink.export(
            FinishedSpan(
                self.context,
                self._parent_span_id,
                self._started_unix_ns,
                ended_unix_ns,
                self._queue,
                self._job_id,
                self._job_type,
                self._attempt,
                outcome,
                failed=outcome not in _GOOD_OUTCOMES,
            )
        )


_GOOD_OUTCOMES: Final = frozenset({"completed", "released", "cancelled"})


class NoSpan:
    """What a tracer gives while tracing is off: one shared object that does nothing."""

    __slots__ = ()

    @property
    def log_keys(self) -> dict[str, str]:
        return {}

    def set_outcome(self, outcome: str) -> None:
        """Nobody asked."""

    def end(self, outcome: str) -> None:
        """Nobody asked."""

    def __enter__(self) -> NoSpan:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""


_NO_SPAN: Final = NoSpan()


class Tracer:
    """Opens spans. Without a sink (tracing off) nothing is made."""

    __slots__ = ("_sink",)

    def __init__(self, sink: SpanSink | None = None) -> None:
        self._sink = sink

    def job_span(
        self,
        *,
        queue: str,
        job_id: str,
        job_type: str,
        attempt: int,
        correlation_id: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> JobSpan | NoSpan:
        """A span around one run of a job: `with tracer.job_span(...) as span: ...; span.set_outcome(...)`."""
        if self._sink is None:
            return _NO_SPAN
        return JobSpan(self._sink, parent_of(correlation_id, tags), queue, job_id, job_type, attempt)


def _random_hex(bits: int) -> str:
    """Ids need to be unlikely to meet, not hard to guess; the specification forbids only all zeros."""
    return f"{random.getrandbits(bits) or 1:0{bits // 4}x}"
