-- How many jobs the first chunks of a queue have, as far as :total is concerned. Locks nothing.
SELECT COALESCE(SUM(f.jobs), 0) FROM (
    SELECT r.jobs FROM euterpe_ready AS r WHERE {{ready}} ORDER BY r.priority, r.lo LIMIT 8 + CAST(:total AS integer) / 16
) AS f
