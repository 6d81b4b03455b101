-- Of each of these keys as many jobs ended: let that many of its most urgent parked ones be claimed again. See the shared
-- text, which says it of one key; here all keys of a turn are one statement, for a turn may free a hundred.
-- An array, because a join would tempt the planner to walk all jobs.
UPDATE inbox_jobs SET parked = FALSE
WHERE id = ANY (ARRAY(
    SELECT p.id
    FROM unnest(CAST(:limit_key AS text[]), CAST(:limit AS integer[])) AS k (name, most),
        LATERAL (SELECT j.id FROM inbox_jobs AS j
                 WHERE {{limit_key}} = k.name AND j.parked
                   AND j.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
                   AND j.queue NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'queue')
                 ORDER BY j.priority, j.seq LIMIT k.most {{skip_locked}}) AS p))
RETURNING queue
