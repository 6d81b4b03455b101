-- Write the claims of these jobs, which are held, from their receipts onto their rows; returns those that had one. After jobs
-- were looked for in their chunks this runs once more: its snapshot is younger than the claim that took them out.
UPDATE inbox_jobs AS j SET {{claimed_then}}
FROM euterpe_claims AS c
WHERE j.id {{in ids uuid}} AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled' AND c.ranges @> j.seq
RETURNING CAST(j.id AS text)
