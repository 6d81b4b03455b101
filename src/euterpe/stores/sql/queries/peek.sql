-- What a claim of this queue would take next; the conditions of claim.sql, without taking anything.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE {{claimable}}
ORDER BY j.priority, j.seq
LIMIT :limit
