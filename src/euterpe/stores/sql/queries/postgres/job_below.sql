-- The newest job below this place, and when it was created. The index has one part for each state.
SELECT c.seq, c.created_at
FROM unnest(CAST(:states AS text[])) AS s (state),
LATERAL (
    SELECT w.seq, w.created_at FROM inbox_jobs AS w
    WHERE w.indexed_state = s.state AND w.seq < :before ORDER BY w.seq DESC LIMIT 1
) AS c
ORDER BY c.seq DESC LIMIT 1
