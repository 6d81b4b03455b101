-- Which of these keys have parked jobs. Under their locks, so that no claim is just about to park one.
SELECT k.name FROM unnest(CAST(:keys AS text[])) AS k (name)
WHERE EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE {{limit_key}} = k.name AND j.parked)
