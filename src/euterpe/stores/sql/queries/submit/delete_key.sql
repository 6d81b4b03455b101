-- takes: each scope, key
-- returns: nothing
-- locks: waits
-- The submission was rejected after its key was taken, in this same transaction.
DELETE FROM idempotency_keys WHERE scope = :scope AND key = :key
