-- Keys at their limit: what else of them is ready is parked too. See the shared text; here all keys are one statement.
UPDATE inbox_jobs SET parked = TRUE
WHERE id = ANY (ARRAY(
    SELECT p.id
    FROM unnest(CAST(:limit_key AS text[])) AS k (name),
        LATERAL (SELECT j.id FROM inbox_jobs AS j
                 WHERE {{limit_key}} = k.name AND j.concurrency_key IS NOT NULL AND {{key_state}} = 'scheduled'
                   AND NOT j.parked
                 ORDER BY j.seq LIMIT 1000 {{skip_locked}}) AS p))
