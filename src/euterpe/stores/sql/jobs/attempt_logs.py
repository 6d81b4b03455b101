"""What handlers logged, written with the end of their attempt."""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.claims.outcome import Settlement
from euterpe.stores.sql.program import Program, Row, each


def keep_logs(settlements: Sequence[Settlement], moved: Sequence[Row]) -> Program[None]:
    """Of those that were settled; the lines of a stale attempt go with it. Most log nothing, and cost nothing."""
    logged = [s for s in settlements if s.log is not None]
    if not logged:
        return
    accepted = {(row[0], row[6]) for row in moved}
    kept = [s for s in logged if (s.job_id, s.claim_version) in accepted]
    if kept:
        yield each(
            "insert_attempt_log",
            id=[s.job_id for s in kept],
            claim_version=[s.claim_version for s in kept],
            log=[s.log for s in kept],
        )
