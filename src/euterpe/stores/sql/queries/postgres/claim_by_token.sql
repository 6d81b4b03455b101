-- The running claims that these wire tokens speak for, and whether their deadlines are over.
SELECT {{job_columns}}, j.lease_token_hash, j.started_at + j.execution_timeout_us < {{now}}
FROM unnest(CAST(:id AS uuid[]), CAST(:token_hash AS bytea[])) AS i (id, token_hash)
JOIN {{jobs_now}} AS j ON j.id = i.id
WHERE j.lease_token_hash = i.token_hash AND j.lease_expires_at IS NOT NULL
