"""A job once more: the submission that asks for the same as a new job."""

from __future__ import annotations

from euterpe.model.job import JobRow
from euterpe.model.state import PLAIN_STAGES
from euterpe.model.submitting.submission import Submission


def replay_of(job: JobRow) -> Submission:
    """The same request again; dependencies are not waited for a second time."""
    return Submission(
        type=job.type,
        payload=job.payload,
        payload_format=job.payload_format,
        requester_id=job.requester_id,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        execution_timeout_us=job.execution_timeout_us,
        visibility_us=job.visibility_us,
        lifetime_us=job.expires_at - job.created_at,
        retry=job.retry,
        stages=job.stages if job.stages_json else PLAIN_STAGES,
        correlation_id=job.correlation_id,
        tags=job.tags or None,
        callback_url=job.callback_url,
        callback_events=job.callback_events,
        concurrency_key=job.concurrency_key,
        concurrency_limit=job.concurrency_limit,
        replay_of=job.id,
    )
