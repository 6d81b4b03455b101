-- takes: limit
-- returns: name
-- locks: none
-- Keys with a rate that have a token, and a place for a job that waits.
SELECT r.name FROM euterpe_key_rates AS r
WHERE r.full_at - (r.burst - 1) * r.interval_us <= {{now}} AND EXISTS (SELECT 1 FROM euterpe_key_fronts AS f WHERE f.name = r.name)
ORDER BY r.name LIMIT :limit
