free AS MATERIALIZED (
    SELECT w.ctid AS at, w.seq, w.priority FROM inbox_jobs AS w
    WHERE w.indexed_state = 'completed' AND w.seq = ANY (ARRAY(SELECT f.seq FROM front AS f WHERE f.chunk IS NOT NULL))
      AND w.chunk IS NOT NULL AND w.state || '' = 'scheduled'
    FOR UPDATE OF w SKIP LOCKED
), onto_rows AS MATERIALIZED (
    SELECT at, priority, seq FROM free UNION ALL SELECT at, priority, seq FROM front WHERE at IS NOT NULL
)
