CAST(e.id AS TEXT), CAST(e.job_id AS TEXT), e.requester_id, e.sequence, e.type, e.url, e.origin, NULL, e.state,
    e.attempt_count, e.claim_version, e.worker_id, e.lease_expires_at, e.run_at, e.created_at, e.updated_at,
    e.completed_at, e.error
