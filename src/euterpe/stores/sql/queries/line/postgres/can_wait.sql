j.claim_version = 0 AND j.max_attempts > 1
