-- takes: limit
-- returns: prefix, requester_id, expires_in_us
-- locks: none
-- Keys that are good now and expire, the next one first.
SELECT k.prefix, k.requester_id, k.expires_at - {{now}} FROM euterpe_api_keys AS k
WHERE k.revoked_at IS NULL AND k.expires_at > {{now}} ORDER BY k.expires_at LIMIT :limit
