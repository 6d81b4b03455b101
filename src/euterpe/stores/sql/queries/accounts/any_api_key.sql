-- takes: nothing
-- returns: found
-- locks: none
-- Whether anybody has ever been given a key.
SELECT 1 FROM euterpe_api_keys LIMIT 1
