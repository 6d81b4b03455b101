-- The claims that these receipts, which are held, still stand for go onto their rows. A row that somebody holds is left.
WITH free AS MATERIALIZED (
    SELECT w.id, c.receipt
    FROM euterpe_claims AS c, unnest(c.ranges) AS x, {{plain_in}}, inbox_jobs AS w
    WHERE c.receipt {{in receipts bigint}} AND w.id = j.id AND w.chunk IS NOT NULL AND w.state || '' = 'scheduled'
    ORDER BY w.id FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE inbox_jobs AS j SET {{claimed_then}}
FROM free JOIN euterpe_claims AS c ON c.receipt = free.receipt
WHERE j.id = free.id AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled'
