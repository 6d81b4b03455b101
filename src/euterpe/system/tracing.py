"""Spans of jobs, where the configuration asks for them: made around each run, sent from a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager

from euterpe.config import Config
from euterpe.model.job import Claim
from euterpe.observe.otlp import OtlpExporter
from euterpe.observe.tracing import Tracer
from euterpe.ports import Span, Trace


@asynccontextmanager
async def traces(config: Config, instance_id: str) -> AsyncIterator[Trace | None]:
    """What opens a job's span; None while tracing is off. At the end, what still waits is sent."""
    tracing = config.observability.tracing
    if not tracing.enabled:
        yield None
        return
    exporter = OtlpExporter(tracing.endpoint, instance_id=instance_id)
    tracer = Tracer(exporter)

    def trace(claim: Claim) -> AbstractContextManager[Span]:
        job = claim.job
        return tracer.job_span(
            queue=job.queue,
            job_id=job.id,
            job_type=job.type,
            attempt=job.attempt_count,
            correlation_id=job.correlation_id,
            tags=job.tags,
        )

    try:
        yield trace
    finally:
        await asyncio.to_thread(exporter.close)
