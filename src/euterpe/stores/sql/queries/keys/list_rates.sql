-- takes: nothing
-- returns: name, interval_us, burst, full_at, now
-- locks: none
-- All rates, and the time by which they are read.
SELECT name, interval_us, burst, full_at, {{now}} FROM euterpe_key_rates ORDER BY name
