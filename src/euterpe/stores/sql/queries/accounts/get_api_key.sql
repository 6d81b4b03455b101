-- takes: prefix
-- returns: api_key_columns, secret_hash, now
-- locks: none
-- One key, the hash that proves it, and the time that decides about its expiry.
SELECT {{api_key_columns}}, k.secret_hash, {{now}} FROM euterpe_api_keys AS k WHERE k.prefix = :prefix
