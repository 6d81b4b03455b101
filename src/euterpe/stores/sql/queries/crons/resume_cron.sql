-- takes: name
-- returns: name
-- locks: waits
-- Ticks of the pause are not missed ones: it goes on from now.
UPDATE euterpe_crons SET paused = FALSE, last_tick = CASE WHEN paused THEN {{now}} ELSE last_tick END
WHERE name = :name RETURNING name
