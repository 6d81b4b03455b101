-- takes: limit
-- returns: kind, name, age_us
-- locks: none
-- What is paused, and for how long.
SELECT p.kind, p.name, {{now}} - p.paused_at FROM euterpe_pauses AS p ORDER BY p.kind, p.name LIMIT :limit
