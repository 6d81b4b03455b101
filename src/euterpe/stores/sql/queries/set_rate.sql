-- The new rate of a key that is held.
UPDATE euterpe_key_rates SET interval_us = :interval_us, burst = :burst, full_at = :full_at, offered_at = 0
WHERE name = :name
