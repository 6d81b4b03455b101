-- What a taken key stands for.
SELECT request_hash, CAST(job_id AS TEXT), response FROM idempotency_keys WHERE scope = :scope AND key = :key
