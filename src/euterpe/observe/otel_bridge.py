"""The open span of an attempt, told to the OpenTelemetry API, so that spans of the user's own nest under it.

Only where the user's program has loaded that API itself: it is no dependency of ours, and its SDK is the user's choice.
We still make and send the span of the attempt; OpenTelemetry learns its ids and nothing more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

API: Final = "opentelemetry.trace"
SAMPLED: Final = 1


def enter(trace_id: str, span_id: str, *, sampled: bool) -> Callable[[], object] | None:
    """Make this span the current one of OpenTelemetry; returns what ends that, or None where nobody uses it."""
    if API not in sys.modules:
        return None
    from opentelemetry import context, trace

    flags = trace.TraceFlags(SAMPLED if sampled else 0)
    ours = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
    return partial(context.detach, context.attach(trace.set_span_in_context(trace.NonRecordingSpan(ours))))
