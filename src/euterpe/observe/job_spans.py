"""A span around every attempt of a worker, where the configuration or the environment asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final

from euterpe.config import load_config
from euterpe.config.settings import TracingConfig
from euterpe.model.job import Claim
from euterpe.observe.otlp import OtlpExporter
from euterpe.observe.tracing import Tracer
from euterpe.ports import Span, Trace

BARE: Final = "OBSERVABILITY_TRACING_"
PREFIXED: Final = f"EUTERPE_{BARE}"


def tracing_of(environ: Mapping[str, str]) -> TracingConfig:
    """What the environment says of traces, for a process that has no configuration file. Nothing else of it is read;
    a name with our prefix wins."""
    settings = {name: value for name, value in environ.items() if name.startswith((BARE, PREFIXED))}
    return load_config(None, settings).observability.tracing


@asynccontextmanager
async def job_spans(tracing: TracingConfig, instance_id: str) -> AsyncIterator[Trace | None]:
    """What opens the span of an attempt; None while tracing is off. At the end, what still waits is sent."""
    if not tracing.enabled:
        yield None
        return
    exporter = OtlpExporter(tracing.endpoint, instance_id=instance_id)
    tracer = Tracer(exporter)

    def trace(claim: Claim) -> Span:
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
        last_send = ThreadPoolExecutor(1)  # the loop's own executor is the application's, who may have closed it
        await asyncio.get_running_loop().run_in_executor(last_send, exporter.close)
        last_send.shutdown(wait=False)
