-- The rate of a key, new or changed; what was taken under the old one stays taken.
INSERT INTO euterpe_key_rates AS r (name, interval_us, burst, full_at) VALUES (:name, :interval_us, :burst, {{now}})
ON CONFLICT (name) DO UPDATE SET interval_us = EXCLUDED.interval_us, burst = EXCLUDED.burst, offered_at = 0
