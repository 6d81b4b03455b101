state = 'running', chunk = NULL, parked = false, stage = 'claimed', stage_ordinal = 0, claim_version = 1, attempt_count = 1,
    heartbeat_at = c.claimed_at, started_at = c.claimed_at, updated_at = c.claimed_at, transitions = j.transitions + 1,
    worker_id = c.worker_id,
    lease_token_hash = {{receipt_token}},
    lease_expires_at = {{receipt_lease}}
