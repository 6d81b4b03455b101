-- takes: requester_id
-- returns: api_key_columns
-- locks: none
-- Keys, oldest first, optionally of one requester.
SELECT {{api_key_columns}} FROM euterpe_api_keys AS k
WHERE (CAST(:requester_id AS TEXT) IS NULL OR k.requester_id = :requester_id)
ORDER BY k.created_at, k.prefix
