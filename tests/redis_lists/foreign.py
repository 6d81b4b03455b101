"""Jobs as another program that keeps the fifth specification document writes them."""

from __future__ import annotations

import json
from typing import Any

HIGH, LOW = "jobqueue:high_priority", "jobqueue:low_priority"


def foreign(job_id: str = "job-1", **more: Any) -> str:
    said = {
        "id": job_id,
        "filepath": "/in/a.wav",
        "filesize": 12,
        "priority": "high",
        "retries": 0,
        "creation_time": "2025-09-12T10:00:00.123456789Z",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331",
    }
    return json.dumps(said | more)
