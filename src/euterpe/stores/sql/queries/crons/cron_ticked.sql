-- takes: tick, name
-- returns: nothing
-- locks: waits
-- This tick was submitted, by whoever it was.
UPDATE euterpe_crons SET last_tick = :tick WHERE name = :name AND (last_tick IS NULL OR last_tick < :tick)
