-- Give claims their wire tokens (stored hashed). Same transaction as the claim.
UPDATE inbox_jobs AS j SET lease_token_hash = i.token_hash
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:token_hash AS bytea[]))
    AS i (id, claim_version, token_hash)
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
