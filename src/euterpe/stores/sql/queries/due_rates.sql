-- Keys with parked jobs and a token that nobody was let go for yet, or more than a second ago.
SELECT r.name, r.interval_us, r.burst, r.full_at, {{now}}, r.offered_at FROM euterpe_key_rates AS r
WHERE r.full_at - (r.burst - 1) * r.interval_us <= {{now}}
  AND (r.offered_at < r.full_at - (r.burst - 1) * r.interval_us OR r.offered_at < {{now}} - 1000000)
  AND EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.parked AND {{limit_key}} = r.name || '')
ORDER BY r.name
