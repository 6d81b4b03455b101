-- takes: scope, key
-- returns: request_hash, job_id, response
-- locks: none
-- What a taken key stands for.
SELECT request_hash, CAST(job_id AS TEXT), response FROM idempotency_keys WHERE scope = :scope AND key = :key
