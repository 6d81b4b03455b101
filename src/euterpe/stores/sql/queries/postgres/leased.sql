{{claimed}},
        lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}),
        worker_id = :worker_id, lease_token_hash = NULL
