-- takes: name, interval_us, burst
-- returns: interval_us, burst, full_at, held_until, now
-- locks: waits
-- The rate of a key as it stands, new where it had none; held until it is changed.
INSERT INTO euterpe_key_rates AS r (name, interval_us, burst, full_at) VALUES (:name, :interval_us, :burst, {{now}})
ON CONFLICT (name) DO UPDATE SET burst = r.burst
RETURNING interval_us, burst, full_at, held_until, {{now}}
