-- Give a claim its wire token (stored hashed). Same transaction as the claim.
UPDATE inbox_jobs SET lease_token_hash = :token_hash
WHERE id = :id AND claim_version = :claim_version AND lease_expires_at IS NOT NULL
