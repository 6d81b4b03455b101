"""Examples of bulk operations and failures, for OpenAPI and /docs."""

from __future__ import annotations

from typing import Final

from euterpe.wire.examples import AT, JOB_ID, Json

COUNT: Final[Json] = {"count": 2000, "exact": True, "dependents": None, "dependents_exact": True, "cause": None}
OPERATION: Final[Json] = {
    "operation_id": "6c1d2c1e-3f43-4a0f-9c86-5f1f6f2f7d10",
    "action": "retry",
    "force": False,
    "query": "state:failed type:report.*",
    "cause": None,
    "requester": "local",
    "state": "running",
    "total": 2000,
    "total_exact": True,
    "done": 1190,
    "dependents": 0,
    "skipped": {"changed_since": 10},
    "failed": 0,
    "error": None,
    "created_at": AT,
    "updated_at": AT,
    "completed_at": None,
}
FAILURES: Final[Json] = {
    "groups": [
        {
            "fingerprint": "8d1f0c2b4a6e",
            "query": "fingerprint:8d1f0c2b4a6e",
            "type": "report.render",
            "code": "ValueError",
            "category": "permanent",
            "message": "report 7 has no template 'monthly'",
            "count": 1200,
            "exact": True,
            "first_at": AT,
            "last_at": AT,
            "sample_job_id": JOB_ID,
        }
    ],
    "more": False,
}
