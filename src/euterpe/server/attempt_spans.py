"""Spans of attempts that run in workers of other languages: from the claim to the report, as this process sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from euterpe.model.claims.worker_reports import TokenReply, TokenReport
from euterpe.model.job import Claim, attempt_id
from euterpe.ports import Span, Trace
from euterpe.server.http.asgi import Request
from euterpe.wire.worker import OWN_SPANS
from euterpe.worker.reporting.telemetry import outcome_name

OPEN_LIMIT: Final = 10_000


class AttemptSpans:
    """Those that are open. An attempt whose report never comes, or goes to another process, is given up in its turn."""

    def __init__(self, trace: Trace | None) -> None:
        self._trace = trace
        self._open: dict[str, Span] = {}

    def begin(self, request: Request, claims: Sequence[Claim]) -> None:
        name, own = OWN_SPANS
        if self._trace is None or request.header(name) == own:
            return
        for claim in claims:
            self._open[claim.lease.attempt_id] = self._trace(claim)
        while len(self._open) > OPEN_LIMIT:
            del self._open[next(iter(self._open))]

    def end(self, reports: Sequence[TokenReport], replies: Sequence[TokenReply]) -> dict[str, dict[str, str]]:
        """The ids of each span that ended, for the log, by its attempt."""
        ended: dict[str, dict[str, str]] = {}
        if not self._open:
            return ended
        for report, reply in zip(reports, replies, strict=True):
            if reply.job is not None:
                name = attempt_id(report.job_id, report.claim_version)
                span = self._open.pop(name, None)
                if span is not None:
                    ended[name] = span.log_keys
                    span.end(outcome_name(report.outcome))
        return ended
