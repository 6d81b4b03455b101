-- takes: rows of id, claim_version
-- returns: completing_columns
-- locks: none
-- Which of these claims still hold, as the moves that `complete` makes of them next, in the same transaction.
SELECT {{packed completing_columns}}
FROM {{rows id claim_version}} AS i
JOIN inbox_jobs AS j ON j.id = i.id
WHERE j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
