"""The life of a job, attempt by attempt: how long it waited, how long it ran, who ran it and why it failed."""

from __future__ import annotations

from typing import Any

from euterpe.dashboard.layout import empty, panel
from euterpe.dashboard.pages.jobs import due_at
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.charts import ChartSpan, timeline
from euterpe.dashboard.parts.formatting import duration, moment
from euterpe.dashboard.parts.html import Html
from euterpe.model.claims.attempt_log import AttemptLog
from euterpe.model.job import AttemptRow, JobRow, read_error
from euterpe.model.reading.document import rfc3339
from euterpe.model.state import TERMINAL, State


def attempts_panel(job: JobRow, attempts: list[AttemptRow], logs: list[AttemptLog], now: int) -> Html:
    rows, ends = stretches(job, attempts, now)
    legend = h.span(h.span("waited", class_="key waited"), h.span("ran", class_="key ran"))
    if not rows:
        return panel("Attempts", empty("It ended before any worker had taken it."))
    drawn = timeline(rows, job.created_at, max(ends, job.created_at + 1))
    by_claim = {log.claim_version: log for log in logs}
    told = h.ol(
        [_attempt(attempt, rows[i], by_claim.get(attempt.claim_version), now) for i, attempt in enumerate(attempts)],
        class_="attempts",
    )
    return panel("Attempts", drawn, told if attempts else None, _still_waits(job, now), hint=legend)


def stretches(job: JobRow, attempts: list[AttemptRow], now: int) -> tuple[list[list[ChartSpan]], int]:
    """A row of stretches for each attempt, one more for what waits now, and when the last of them ends."""
    rows: list[list[ChartSpan]] = []
    since = job.created_at
    for attempt in attempts:
        ended = attempt.ended_at or now
        row = []
        if attempt.started_at > since:
            row.append(_waited(since, attempt.started_at, attempt.attempt))
        ran = duration(max(0, ended - attempt.started_at))
        row.append(ChartSpan("ran", attempt.started_at, ended, f"attempt {attempt.attempt} ran {ran}"))
        rows.append(row)
        since = ended
    if job.state not in TERMINAL and job.state is not State.RUNNING:
        rows.append([_waited(since, max(now, since), len(attempts) + 1)])
        since = max(now, since)
    return rows, since


def _waited(begins: int, ends: int, attempt: int) -> ChartSpan:
    return ChartSpan("waited", begins, ends, f"waited {duration(max(0, ends - begins))} for attempt {attempt}")


def _still_waits(job: JobRow, now: int) -> Html | None:
    if job.state in TERMINAL or job.state is State.RUNNING:
        return None
    since = max(0, now - due_at(job))
    told = f"It has been due for {duration(since)}." if job.state is State.SCHEDULED else "It is not due yet."
    return h.p(told, class_="soft")


def _attempt(attempt: AttemptRow, row: list[ChartSpan], log: AttemptLog | None, now: int) -> Html:
    waited = next((s.ends - s.begins for s in row if s.kind == "waited"), 0)
    ran = (attempt.ended_at or now) - attempt.started_at
    error = read_error(attempt.error) if attempt.error else None
    return h.li(
        h.div(
            h.strong(f"Attempt {attempt.attempt}"),
            h.span(_outcome(attempt), class_="outcome"),
            h.span("waited ", h.span(duration(max(0, waited)), class_="waited")),
            h.span("ran ", h.span(duration(max(0, ran)), class_="ran")),
            h.span("on ", h.code(attempt.worker_id or "unknown")),
            h.span(moment(attempt.started_at, now)),
            class_="attempt-head",
        ),
        _failure(error) if error is not None else None,
        None if log is None else _log(log),
    )


def _log(log: AttemptLog) -> Html:
    """What the handler logged."""
    told = "1 line" if len(log.lines) == 1 else f"{len(log.lines)} lines"
    older = f", {log.dropped:,} older ones not kept" if log.dropped else ""
    lines = [
        (h.span(_clock(line.at), class_="soft"), f" {line.level:<8} {line.logger}: {line.message}\n")
        for line in log.lines
    ]
    return h.details(h.summary(f"Log ({told}{older})"), h.pre(lines, class_="log", tabindex="0"))


def _clock(at: int) -> str:
    """The time of the day, in UTC as all exact times of the pages."""
    return (rfc3339(at) or "")[11:23]


def _outcome(attempt: AttemptRow) -> str:
    if attempt.ended_at is None:
        return "▶ runs"
    if attempt.outcome == "completed":
        return "✓ completed"
    return f"✕ {(attempt.outcome or 'unknown').replace('_', ' ')}"


def _failure(error: dict[str, Any]) -> Html:
    stack = error.get("stack")
    said = h.p(h.strong(str(error.get("code"))), f" ({error.get('category')}): {error.get('message')}", class_="error")
    return h.div(
        said,
        h.details(h.summary("Stack"), h.pre(str(stack), tabindex="0")) if stack else None,
    )
