-- takes: cost_us, name
-- returns: nothing
-- locks: waits
-- A part of a reservation was not used: whoever comes next begins earlier.
UPDATE euterpe_rate_limits SET next_at = next_at - :cost_us WHERE name = :name
