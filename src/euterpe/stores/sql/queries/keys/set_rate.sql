-- takes: interval_us, burst, full_at, name
-- returns: nothing
-- locks: waits
-- The new rate of a key that is held.
UPDATE euterpe_key_rates SET interval_us = :interval_us, burst = :burst, full_at = :full_at
WHERE name = :name
