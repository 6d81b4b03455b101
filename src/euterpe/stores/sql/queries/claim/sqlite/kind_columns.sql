j.requester_id, j.type, j.priority, j.payload_format, j.max_attempts, j.run_at, j.created_at,
    j.scheduled_at, j.expires_at, j.execution_timeout_us, j.visibility_us, j.retry_policy,
    j.callback_url, j.callback_events,
    j.dependency, j.depth, j.has_dependents, j.transitions,
    CASE WHEN j.dependency IS NOT NULL
         THEN (SELECT CASE WHEN COUNT(*) = 1 THEN MIN(d.depends_on) END FROM job_dependencies AS d WHERE d.job_id = j.id) END
