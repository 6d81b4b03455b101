-- takes: nothing
-- returns: requester_id, count
-- locks: none
-- How many idempotency keys each requester has. A scope is the length of its name, a colon, its name, a slash and the type.
SELECT substr(scope, 1, strpos(scope, '/') - 1), COUNT(*)
FROM idempotency_keys
GROUP BY substr(scope, 1, strpos(scope, '/') - 1)
