c.claimed_at + LEAST(c.lease_ttl_us, j.visibility_us,
                                           j.execution_timeout_us + CASE WHEN c.token_hashes IS NULL THEN {{overrun}} ELSE 0 END)
