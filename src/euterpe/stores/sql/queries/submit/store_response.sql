-- takes: each response, job_id, scope, key
-- returns: nothing
-- locks: waits
-- The answer that every replay of this key gets, byte for byte.
UPDATE idempotency_keys SET response = :response, job_id = :job_id WHERE scope = :scope AND key = :key
