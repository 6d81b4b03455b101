-- takes: each tokens, name
-- returns: nothing
-- locks: waits
-- So many tokens more of a key are taken.
UPDATE euterpe_key_rates
SET full_at = CASE WHEN full_at > {{now}} THEN full_at ELSE {{now}} END + :tokens * interval_us
WHERE name = :name
