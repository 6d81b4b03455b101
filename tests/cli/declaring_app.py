"""A user's app whose job type declares everything it can: copied into the folder where a test runs its commands."""

from __future__ import annotations

import os

import euterpe

queue = euterpe.Queue(os.environ["ENGINE_URL"])


@queue.job(
    "report.render",
    queue="reports",
    priority="high",
    max_attempts=7,
    timeout="10m",
    visibility="2m",
    lifetime="3d",
    backoff="constant",
    retry_on_timeout=False,
    stages=["claimed", "drawn"],
    concurrency_limit=4,
    tags={"team": "press"},
    correlation_id="declared",
    callback_url="https://receiver.example/jobs",
    callback_events="terminal",
)
async def render(ctx: euterpe.Context, report_id: int, pages: list[int] | None = None) -> str:
    return f"report {report_id}"
