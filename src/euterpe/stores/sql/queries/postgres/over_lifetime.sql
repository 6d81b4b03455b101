-- Waiting jobs past their total lifetime; the condition is that of the index, word for word. Those of chunks and
-- receipts are not in it: their chunk or receipt tells when the first of them expires. A chunk whose jobs are gone goes, too.
WITH due AS MATERIALIZED (
    SELECT j.id FROM inbox_jobs AS j
    WHERE '' || j.indexed_state IN ('pending', 'scheduled', 'delayed', 'retrying') AND j.expires_at <= {{now}}
    LIMIT :limit {{skip_locked}}
), plain AS MATERIALIZED (
    SELECT w.id
    FROM (SELECT unnest(r.ranges) FROM euterpe_ready AS r WHERE r.expires_at <= {{now}}
          UNION ALL SELECT unnest(c.ranges) FROM euterpe_claims AS c WHERE c.jobs_expire_at <= {{now}}) AS o (x),
         {{plain_in}}, inbox_jobs AS w
    WHERE j.expires_at <= {{now}} AND w.id = j.id AND w.chunk IS NOT NULL AND w.state || '' = 'scheduled'
    LIMIT :limit FOR UPDATE OF w SKIP LOCKED
), empty AS (
    DELETE FROM euterpe_ready AS d
    WHERE d.chunk IN (SELECT r.chunk FROM euterpe_ready AS r
                      WHERE r.expires_at <= {{now}} AND NOT EXISTS (SELECT 1 FROM unnest(r.ranges) AS x, {{plain_in}})
                      FOR UPDATE SKIP LOCKED)
)
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.id = ANY (ARRAY(SELECT id FROM due UNION ALL SELECT id FROM plain))
LIMIT :limit {{skip_locked}}
