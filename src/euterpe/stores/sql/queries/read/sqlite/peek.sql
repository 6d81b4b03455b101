-- takes: queue, limit
-- returns: job_columns
-- locks: none
-- What a claim of this queue would take next, without taking anything.
SELECT {{job_columns}}
FROM (
    WITH RECURSIVE asked (type) AS MATERIALIZED (
        SELECT w.type FROM ({{types_of_queue}}) AS w WHERE {{unpaused}}
    ), {{line}}
    SELECT l.seq, l.tokens FROM line AS l CROSS JOIN inbox_jobs AS j ON j.seq = l.seq
    WHERE j.state || '' = 'scheduled' AND j.expires_at > {{now}} AND (l.tokens < 1) IS NOT TRUE
    LIMIT :limit
) AS l
CROSS JOIN inbox_jobs AS j ON j.seq = l.seq
ORDER BY j.priority, j.seq
