-- Which of these keys have parked jobs.
SELECT k.value FROM json_each(:keys) AS k
WHERE EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE {{limit_key}} = k.value AND j.parked)
