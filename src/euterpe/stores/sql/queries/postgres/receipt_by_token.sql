-- What `heartbeat_by_token` would find of these leases if they were on their rows; their deadlines are not over. Locks nothing.
SELECT CAST(j.id AS text), j.claim_version, j.lease_expires_at, j.cancel_version = j.claim_version, j.lease_token_hash
FROM unnest(CAST(:id AS uuid[]), CAST(:token_hash AS bytea[])) AS i (id, token_hash)
JOIN {{jobs_now}} AS j ON j.id = i.id
WHERE j.lease_token_hash = i.token_hash AND j.lease_expires_at IS NOT NULL
  AND j.started_at + j.execution_timeout_us >= {{now}}
