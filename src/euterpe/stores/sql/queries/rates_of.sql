-- The rates of these keys, held until the claim that takes from them is committed.
SELECT r.name, r.interval_us, r.burst, r.full_at, {{now}} FROM euterpe_key_rates AS r
WHERE r.name {{in keys text}} ORDER BY r.name {{lock r}}
